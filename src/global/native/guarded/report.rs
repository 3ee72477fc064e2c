//! What is said of a misuse of a guarded block: which block, and where it was allocated, freed and misused.

use core::fmt::Write;
use core::sync::atomic::Ordering::Relaxed;

use super::super::text::Text;
use super::pool::{PLACES, POOL, Place, State, Trace, has, index_of, with_place};
use super::stack::Stack;
use crate::os;

/// What is to be done about a free or a fault.
pub(super) enum Misuse {
    FreedTwice,
    NoBlock,
    Overflow,
}

/// Has faults among the places reported. Called more than once: Rust's library looks for a handler before its
/// first allocation, which comes here, and installs its own after.
pub(super) fn install() {
    os::on_fault(report_fault);
}

/// Reports a fault at an address, if that is among the places.
fn report_fault(address: *mut u8) {
    if !has(address) {
        return;
    }
    match at_fault(address) {
        Some((what, place)) => say(what, address, &place),
        None => say_no_block(address),
    }
}

/// What a fault at an address of the places is, and of what block; `None` if no block was ever near.
pub(super) fn at_fault(address: *mut u8) -> Option<(&'static str, Place)> {
    let page = os::page_size();
    let offset = address.addr() - POOL.load(Relaxed).addr();
    let in_guard = (offset / page).is_multiple_of(2);
    // Of a closed page: the place before it was overrun, or the one behind it underrun, whichever is nearer.
    let before = in_guard && offset % page < page / 2 && offset / page > 0;
    let shown = if before { address.wrapping_sub(page) } else { address };
    let place = with_place(shown, |place| place)?;
    let what = match (place.state, in_guard, before) {
        (State::Unused, _, _) => return None,
        (State::Freed, _, _) => "memory was used after it was freed",
        (_, true, true) => "memory was used beyond the end of a block",
        (_, true, false) => "memory was used before the start of a block",
        _ => "a fault in a block in use",
    };
    Some((what, place))
}

/// Reports a misuse that a free noticed, and ends the process. No lock is held.
pub(super) fn misuse(block: *mut u8, misuse: &Misuse) -> ! {
    let what = match misuse {
        Misuse::FreedTwice => "a block was freed twice",
        Misuse::NoBlock => "a pointer was freed, resized or measured that is no block in use",
        Misuse::Overflow => "memory was written beyond the end of a block",
    };
    let place = with_place(block, |place| place).unwrap_or(Place::UNUSED);
    say(what, block, &place);
    os::abort()
}

/// Writes the report. After a fault it has the thread's alternate stack, of which Rust's own threads have 8 KiB. The
/// kernel takes up to 3 of them, and an unwinder as much: while that is at work, no text is on the stack. If it is too
/// much all the same, the first line has been written.
fn say(what: &str, address: *mut u8, place: &Place) {
    say_what(what, address, place);
    let here = Trace { thread: os::thread_id(), stack: Stack::here() };
    say_where(&here, place);
}

#[inline(never)]
fn say_no_block(address: *mut u8) {
    let mut text = Text::new();
    let _ = writeln!(text, "pagewise: a fault at {:#x}, near no guarded block", address.addr());
    text.write();
}

#[inline(never)]
fn say_what(what: &str, address: *mut u8, place: &Place) {
    let mut text = Text::new();
    let _ = writeln!(
        text,
        "pagewise: {what}: {:#x}, thread {}; the guarded block is {} bytes at {:#x}, place {} of {PLACES}",
        address.addr(),
        os::thread_id(),
        place.size,
        place.block,
        if has(address) { index_of(address) } else { 0 },
    );
    text.write();
}

#[inline(never)]
fn say_where(here: &Trace, place: &Place) {
    let mut text = Text::new();
    let mut trace = |what: &str, trace: &Trace| {
        let _ = writeln!(text, "pagewise:   {what} by thread {}:", trace.thread);
        trace.stack.show(&mut text);
    };
    trace("misused", here);
    if place.state == State::Freed {
        trace("freed", &place.freed);
    }
    if place.state != State::Unused {
        trace("allocated", &place.allocated);
    }
    text.write();
}
