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
    let page = os::page_size();
    let offset = address.addr() - POOL.load(Relaxed).addr();
    let mut text = Text::new();
    let in_guard = (offset / page).is_multiple_of(2);
    // Of a closed page: the place before it was overrun, or the one behind it underrun, whichever is nearer.
    let before = in_guard && offset % page < page / 2 && offset / page > 0;
    let shown = if before { address.wrapping_sub(page) } else { address };
    let place = with_place(shown, |place| place);
    let Some(place) = place.filter(|place| place.state != State::Unused) else {
        let _ = writeln!(text, "pagewise: a fault at {:#x}, near no guarded block", address.addr());
        return text.write();
    };
    let what = match (place.state, in_guard, before) {
        (State::Freed, _, _) => "memory was used after it was freed",
        (_, true, true) => "memory was used beyond the end of a block",
        (_, true, false) => "memory was used before the start of a block",
        _ => "a fault in a block in use",
    };
    say(&mut text, what, address, &place);
}

/// Reports a misuse that a free noticed, and ends the process. No lock is held.
pub(super) fn misuse(block: *mut u8, misuse: &Misuse) -> ! {
    let mut text = Text::new();
    let what = match misuse {
        Misuse::FreedTwice => "a block was freed twice",
        Misuse::NoBlock => "a pointer was freed, resized or measured that is no block in use",
        Misuse::Overflow => "memory was written beyond the end of a block",
    };
    let place = with_place(block, |place| place).unwrap_or(Place::UNUSED);
    say(&mut text, what, block, &place);
    os::abort()
}

fn say(text: &mut Text, what: &str, address: *mut u8, place: &Place) {
    let here = Trace { thread: os::thread_id(), stack: Stack::here() };
    let _ = writeln!(
        text,
        "pagewise: {what}: {:#x}, thread {}; the guarded block is {} bytes at {:#x}, place {} of {PLACES}",
        address.addr(),
        here.thread,
        place.size,
        place.block,
        if has(address) { index_of(address) } else { 0 },
    );
    let mut trace = |what: &str, trace: &Trace| {
        let _ = writeln!(text, "pagewise:   {what} by thread {}:", trace.thread);
        trace.stack.show(text);
    };
    trace("misused", &here);
    if place.state == State::Freed {
        trace("freed", &place.freed);
    }
    if place.state != State::Unused {
        trace("allocated", &place.allocated);
    }
    text.write();
}
