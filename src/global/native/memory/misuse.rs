//! Reports a misuse that was noticed, in one line on standard error, and ends the process.
//!
//! ```text
//! pagewise: a block was freed twice, or the pointer is not a block: 0x20e7a94362e0 (112-byte class), thread 4711; <advice>
//! ```
//! The handler of SIGABRT runs then, and may allocate, so no lock may be held here.

use core::fmt::Write;

use super::space::SPACE;
use crate::global::native::base::mode;
use crate::global::native::base::sizes;
use crate::global::native::base::text::Text;
use crate::os;

/// A kind of misuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::global::native) enum Misuse {
    /// Freed while free, or at an address of a heap where no block starts.
    FreedTwice,
    /// Resized or measured while free.
    NotInUse,
    /// No address of a heap's memory, nor of a mapping.
    NoBlock,
    /// Hardened mode: freed, but no block in use starts there.
    FreedNotInUse,
    /// Hardened mode: freed with another size than it was allocated with.
    WrongSize,
    /// Hardened mode: memory behind the block's end was written.
    Overflow,
    /// Hardened mode: memory before the block's start was written.
    Underflow,
    /// Hardened mode: the block was written after it was freed.
    UsedAfterFree,
    /// Hardened mode: free according to its list or heap, but in use according to its state.
    HandedOutTwice,
    /// The heap's own words beside a block, or those in a free block, were overwritten.
    Damaged,
}

impl Misuse {
    /// Returns the message of the report.
    const fn text(self) -> &'static str {
        match self {
            Self::FreedTwice => "a block was freed twice, or the pointer is not a block",
            Self::NotInUse => "a free block was resized or measured, or the pointer is not a block",
            Self::NoBlock => "a pointer was freed or resized that is not a block in use",
            Self::FreedNotInUse => {
                "a block was freed twice, or the pointer is not a block: no block in use starts there"
            }
            Self::WrongSize => "a block was freed with a size that is not its own",
            Self::Overflow => "memory was written beyond the end of a block",
            Self::Underflow => "memory was written before the start of a block",
            Self::UsedAfterFree => "memory was written after it was freed, in a block",
            Self::HandedOutTwice => "a block that is in use was about to be handed out again",
            Self::Damaged => {
                "memory was written beyond a block's bounds, or after it was freed, near a block"
            }
        }
    }
}

/// Reports a misuse of `block`, and ends the process. The caller holds no lock.
#[cold]
#[inline(never)]
pub(in crate::global::native) fn stop(misuse: Misuse, block: *mut u8) -> ! {
    let mut text = Text::new();
    let _ = write!(text, "pagewise: {}: {:#x}", misuse.text(), block.addr());
    if let Some(list) = SPACE.list_of(block).filter(|&list| list > 0) {
        let _ = write!(text, " ({}-byte class)", sizes::class_size(list));
    }
    let _ = write!(text, ", thread {}", os::thread_id());
    let advice = if mode::is_hardened() {
        ""
    } else {
        "; PAGEWISE_HARDENED=1 stops earlier and reports more"
    };
    let _ = writeln!(text, "{advice}");
    text.flush();
    os::abort()
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::global::Pagewise;
    use crate::os::alone;

    /// Each kind of misuse has its own text.
    #[test]
    fn misuses_are_told_apart() {
        use Misuse::*;
        let all = [
            FreedTwice,
            NotInUse,
            NoBlock,
            FreedNotInUse,
            WrongSize,
            Overflow,
            Underflow,
            UsedAfterFree,
            HandedOutTwice,
            Damaged,
        ];
        let texts: std::collections::BTreeSet<_> = all.map(Misuse::text).into();
        assert!(texts.len() == all.len() && texts.iter().all(|text| text.contains(' ')));
    }

    /// The report has the block's address, and the class of a small block; other blocks have none.
    #[test]
    fn a_report_names_the_class_of_a_small_block() {
        for (test, class) in [("small", Some("(112-byte class)")), ("large", None)] {
            let ended = alone::run(&format!("global::native::memory::misuse::tests::{test}"));
            let said = String::from_utf8_lossy(&ended.stderr);
            let [block, report] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
            assert!(
                !ended.status.success() && report.contains("a block was freed twice"),
                "{said}"
            );
            assert!(report.contains(block), "{said}");
            assert_eq!(report.contains("class"), class.is_some(), "{said}");
            assert!(class.is_none_or(|class| report.contains(class)), "{said}");
        }
    }

    fn stop_with(size: usize) {
        let block = Pagewise::new().allocate(size);
        let mut text = Text::new();
        writeln!(text, "{:#x}", block.addr()).expect("there is room");
        text.flush();
        stop(Misuse::FreedTwice, block);
    }

    #[test]
    #[ignore = "in a process of its own, which it stops"]
    fn small() {
        stop_with(100);
    }

    #[test]
    #[ignore = "in a process of its own, which it stops"]
    fn large() {
        stop_with(100 << 10);
    }
}
