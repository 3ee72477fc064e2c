//! Reports the misuse of a guarded block: which block it is, and where it was allocated, freed and
//! misused.

use core::fmt::Write;
use core::sync::atomic::Ordering::Relaxed;

use super::pool::{PLACES, POOL, Record, State, Trace, contains, index_of, with_record};
use super::stack::Stack;
use crate::global::native::base::text::Text;
use crate::os;

/// A misuse noticed when a block is freed, resized or measured.
pub(super) enum GuardedMisuse {
    FreedTwice,
    NoBlock,
    Overflow,
}

/// Installs the fault handler. Called for each guarded block: Rust's standard library checks for a
/// handler before the program's first allocation, which may call this, and installs its own
/// afterwards.
pub(super) fn install() {
    os::on_fault(report_fault);
}

/// Reports a fault at an address, if that is in the pool.
fn report_fault(address: *mut u8) {
    if !contains(address) {
        return;
    }
    match describe_fault(address) {
        Some((what, record)) => say(what, address, &record),
        None => say_no_block(address),
    }
}

/// Returns what happened at an address of the pool, and to which block; `None` if there was never a
/// block nearby.
pub(super) fn describe_fault(address: *mut u8) -> Option<(&'static str, Record)> {
    let page = os::page_size();
    let offset = address.addr() - POOL.load(Relaxed).addr();
    let in_guard = (offset / page).is_multiple_of(2);
    // A fault in a closed page between places is an overrun of the place before it or an underrun
    // of the one behind it, whichever is nearer.
    let before = in_guard && offset % page < page / 2 && offset / page > 0;
    let shown = if before { address.wrapping_sub(page) } else { address };
    let record = with_record(shown, |record| record)?;
    let what = match (record.state, in_guard, before) {
        (State::Unused, _, _) => return None,
        (State::Freed, _, _) => "memory was used after it was freed",
        (_, true, true) => "memory was used beyond the end of a block",
        (_, true, false) => "memory was used before the start of a block",
        _ => "a fault in a block in use",
    };
    Some((what, record))
}

/// Reports a misuse that a free noticed, and ends the process. The caller holds no lock.
pub(super) fn misuse(block: *mut u8, misuse: &GuardedMisuse) -> ! {
    let what = match misuse {
        GuardedMisuse::FreedTwice => "a block was freed twice",
        GuardedMisuse::NoBlock => {
            "a pointer was freed, resized or measured that is not a block in use"
        }
        GuardedMisuse::Overflow => "memory was written beyond the end of a block",
    };
    let record = with_record(block, |record| record).unwrap_or(Record::UNUSED);
    say(what, block, &record);
    os::abort()
}

/// Writes the report. After a fault this runs on the thread's alternate stack, which has 8 KiB in
/// Rust's own threads. The kernel takes up to 3 KiB of it, and an unwinder as much, so no text is
/// on the stack while the unwinder runs. If the stack overflows even so, the first line has been
/// written.
fn say(what: &str, address: *mut u8, record: &Record) {
    say_what(what, address, record);
    let here = Trace { thread: os::thread_id(), stack: Stack::here() };
    say_where(&here, record);
}

/// Reports a fault where there was never a block.
#[inline(never)]
fn say_no_block(address: *mut u8) {
    let mut text = Text::new();
    let _ = writeln!(text, "pagewise: a fault at {:#x}, near no guarded block", address.addr());
    text.flush();
}

/// Writes the first line: what happened, and to which block.
#[inline(never)]
fn say_what(what: &str, address: *mut u8, record: &Record) {
    let mut text = Text::new();
    let _ = writeln!(
        text,
        "pagewise: {what}: {:#x}, thread {}; the guarded block is {} bytes at {:#x}, place {} of {PLACES}",
        address.addr(),
        os::thread_id(),
        record.size,
        record.block,
        if contains(address) { index_of(address) } else { 0 },
    );
    text.flush();
}

/// Writes the stacks: of the misuse, the free and the allocation, as far as there are any.
#[inline(never)]
fn say_where(here: &Trace, record: &Record) {
    let mut text = Text::new();
    let mut trace = |what: &str, trace: &Trace| {
        let _ = writeln!(text, "pagewise:   {what} by thread {}:", trace.thread);
        trace.stack.show(&mut text);
    };
    trace("misused", here);
    if record.state == State::Freed {
        trace("freed", &record.freed);
    }
    if record.state != State::Unused {
        trace("allocated", &record.allocated);
    }
    text.flush();
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use core::ptr;
    use core::sync::atomic::AtomicPtr;

    use super::super::{allocate, free, open};
    use super::*;
    use crate::global::tuning::UNIT;
    use crate::os::alone;

    /// A report says what happened to which block, and which threads misused, freed and allocated
    /// it, each with its calls. A fault elsewhere is not reported.
    #[test]
    fn a_report_tells_who_did_what() {
        let run = alone::passes("global::native::guarded::report::tests::reported");
        let said = String::from_utf8_lossy(&run.stderr);
        let is_call = |line: &str| line.starts_with("pagewise:     ");
        let lines: Vec<&str> = said.lines().filter(|line| !is_call(line)).collect();
        let [known, in_use, misuser, first, after, second_misuser, freer, second, nowhere] =
            lines[..]
        else {
            panic!("{said}")
        };
        let [thread, other, block, far] = known.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{said}")
        };
        let has = |line: &str, all: &[&str]| all.iter().all(|part| line.contains(part));
        let block_told = [block, "100 bytes", "place 0 of", &format!("thread {thread}")];
        assert!(has(in_use, &block_told) && in_use.contains("a fault in a block in use"), "{said}");
        assert!(has(after, &block_told) && after.contains("used after it was freed"), "{said}");
        assert!(has(nowhere, &[far, "near no guarded block"]), "{said}");
        for (line, what, thread) in [
            (misuser, "misused", thread),
            (first, "allocated", thread),
            (second_misuser, "misused", thread),
            (freer, "freed", other),
            (second, "allocated", thread),
        ] {
            assert!(line.contains(&format!("{what} by thread {thread}:")), "{said}");
        }
        let all: Vec<&str> = said.lines().collect();
        let with_calls = all.windows(2).filter(|pair| is_call(pair[1]) && !is_call(pair[0]));
        assert_eq!(with_calls.count(), 5, "{said}");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn reported() {
        open();
        let shared = AtomicPtr::new(allocate(100, UNIT).expect("there are places").as_ptr());
        let block = shared.load(Relaxed);
        let far = POOL.load(Relaxed).wrapping_add(10 * os::page_size());
        let (begin, begun) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                begin.send(os::thread_id()).expect("it is received");
                std::thread::park();
                // SAFETY: the block is in use, and freed once.
                unsafe { free(shared.load(Relaxed)) };
            });
            let number = begun.recv().expect("it begins");
            let (thread, block, far) = (os::thread_id(), block.addr(), far.addr());
            let mut text = Text::new();
            writeln!(text, "{thread} {number} {block:#x} {far:#x}").expect("there is room");
            text.flush();
            report_fault(POOL.load(Relaxed).wrapping_sub(1));
            report_fault(shared.load(Relaxed));
            other.thread().unpark();
            other.join().expect("it ends");
        });
        report_fault(block);
        report_fault(far);
    }

    /// A fault in the pool is reported before it ends the process.
    #[test]
    fn a_fault_is_reported() {
        let ended = alone::run("global::native::guarded::report::tests::faulted");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains("used after it was freed"), "{said}");
    }

    #[test]
    #[ignore = "in a process of its own, which it stops"]
    fn faulted() {
        open();
        let block = allocate(100, UNIT).expect("there are places");
        let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: the block is freed once, and the read is the misuse to be reported. An
        // unoptimised report would not fit on the stack that Rust's threads have for signals, so
        // this thread gives its own up.
        unsafe {
            free(block.as_ptr());
            assert_eq!(libc::sigaltstack(&raw const none, ptr::null_mut()), 0);
            std::hint::black_box(block.read_volatile());
        }
    }
}
