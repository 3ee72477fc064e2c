//! How the memory of a slot becomes accessible, in slots that no heap reaches.

use core::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::global::native::base::mode;
use crate::global::native::lists::registry;
use crate::global::{Hardening, Tuning};
use crate::os::alone;

/// Returns a slot with this number, which no heap reaches. Each test uses another number.
fn beyond_heaps(slot: usize) -> Slot {
    registry::heap_for_test();
    let own = 4 * os::page_size();
    // SAFETY: the slot is nobody else's.
    unsafe { Slot::new(slot, own, own, HugePages::Never, Marks::none()) }
}

/// The first bookkeeping goes in front of the extent, where there is room; nothing is set aside for
/// the extent meanwhile.
#[test]
fn bookkeeping_begins_in_front() {
    registry::heap_for_test();
    let (page, start) = (os::page_size(), SPACE.slot(201));
    // SAFETY: the slot is nobody else's.
    let mut slot = unsafe {
        assert!(SPACE.commit(start, 4 * page, None));
        Slot::new(201, page + 100, 4 * page, HugePages::Never, Marks::none())
    };
    let mut end = start.addr() + page + 100;
    for (size, align) in [(100, 8), (33, 1), (page, 64), (7, 16)] {
        let layout = Layout::from_size_align(size, align).expect("it is one");
        let memory = slot.dedicate(layout).expect("there is memory");
        assert_eq!(memory.addr().get(), end.next_multiple_of(align));
        end = memory.addr().get() + size;
    }
    slot.extend(STEP, 1).expect("there is memory");
    assert!(slot.region.dedicated().is_empty() && slot.high == slot.region.addresses().end);
    let more = slot.dedicate(Layout::new::<[u8; 3 << 12]>()).expect("there is memory");
    assert!(more.addr().get() >= slot.high && !slot.region.dedicated().is_empty());
    assert!(slot.dedicate(Layout::new::<u8>()).is_ok_and(|byte| byte.addr().get() == end));
    // SAFETY: nobody uses the slot any more.
    unsafe {
        slot.give_up();
        SPACE.give_up(start, 4 * page);
    }
}

/// Bookkeeping memory becomes accessible as needed, and little more than that.
#[test]
fn bookkeeping_takes_what_it_needs() {
    let mut slot = beyond_heaps(200);
    let page = os::page_size();
    for (size, align) in [(100, 8), (64 << 10, 64), (1 << 20, 4096), (8, 8), (300 << 10, 16)] {
        let layout = Layout::from_size_align(size, align).expect("it is one");
        let (before, top) = (slot.high, slot.region.dedicated().start);
        let memory = slot.dedicate(layout).expect("there is memory");
        // SAFETY: the memory is the test's.
        unsafe { memory.write_bytes(1, size) };
        assert!(memory.addr().get() >= slot.high && memory.addr().get() + size <= top);
        assert!(slot.high >= before.min(top - size - align) - STEP - page, "{size} bytes");
    }
    // SAFETY: nobody uses the slot any more.
    unsafe { slot.give_up() };
}

/// As the extent grows, a 48th of its length becomes accessible for bookkeeping.
#[test]
fn bookkeeping_memory_is_set_aside_for_the_extent() {
    let mut slot = beyond_heaps(198);
    let Range { start, end } = slot.region.addresses();
    for extent in [STEP, 64 * STEP, 256 * STEP, 1024 * STEP] {
        let more = start + extent - slot.extent().end;
        slot.extend(more, 1).expect("there is memory");
        let aside = end - slot.high;
        let wanted = extent / 48;
        assert!((wanted..=wanted + 2 * STEP).contains(&aside), "{aside} of {extent}");
    }
    // SAFETY: nobody uses the slot any more.
    unsafe { slot.give_up() };
}

/// The extent becomes accessible in steps: most blocks need no system call.
#[test]
fn the_extent_becomes_accessible_by_steps() {
    let mut slot = beyond_heaps(199);
    let start = slot.low;
    for (extent, accessible) in
        [(1, STEP), (STEP, STEP), (STEP + 1, 2 * STEP), (16 * STEP, 16 * STEP)]
    {
        let more = start + extent - slot.extent().end;
        let memory = slot.extend(more, 1).expect("there is memory");
        // SAFETY: the memory is the test's.
        unsafe { memory.write_bytes(1, more) };
        assert_eq!((slot.extent(), slot.low), (start..start + extent, start + accessible));
    }
    // A large extent grows by an eighth.
    slot.extend(1, 1).expect("there is memory");
    assert_eq!(slot.low, start + 18 * STEP);
    // SAFETY: nobody uses the slot any more.
    unsafe { slot.give_up() };
}

/// While growth is barred the extent stays as it is. What else is refused meanwhile counts more
/// than growth.
#[test]
fn growth_can_be_barred() {
    let mut slot = beyond_heaps(196);
    slot.extend(STEP, 1).expect("there is memory");
    let before = slot.extent();
    slot.bar_growth();
    assert!(!slot.is_growth_refused() && slot.dedicate(Layout::new::<u64>()).is_ok());
    assert!(!slot.allow_growth(), "nothing was refused");

    slot.bar_growth();
    assert!(slot.extend(1, 1).is_err() && slot.is_growth_refused());
    assert!(slot.dedicate(Layout::new::<u64>()).is_ok() && slot.is_growth_refused());
    let all = Layout::from_size_align(SPACE.slot_len(), 1).expect("it is one");
    assert!(slot.dedicate(all).is_err() && !slot.is_growth_refused());
    assert!(slot.extend(1, 1).is_err() && !slot.is_growth_refused());
    assert_eq!(slot.extent(), before);
    assert!(slot.allow_growth(), "growth was refused");

    assert!(slot.extend(1, 1).is_ok() && slot.dedicate(all).is_err() && !slot.allow_growth());
    // SAFETY: nobody uses the slot any more.
    unsafe { slot.give_up() };
}

/// In hardened mode the states become accessible with the extent, in steps, and go with it.
#[test]
#[cfg(not(miri))]
fn states_become_accessible_with_the_extent() {
    alone::passes("global::native::memory::slot::tests::hardened");
}

#[test]
#[ignore = "in a process of its own"]
fn hardened() {
    mode::open(&Tuning::new().hardening(Hardening::CHECKS));
    let mut slot = beyond_heaps(197);
    for _ in 0..10 {
        let memory = slot.extend(1 << 20, 1).expect("there is memory").as_ptr();
        for unit in (0..1 << 20).step_by(UNIT) {
            let state = SPACE.state_of(memory.wrapping_add(unit));
            assert_eq!(state.swap(7, Relaxed), 0, "no other unit has it");
        }
    }
    let (states, _) = SPACE.states_of(197).expect("there are some");
    // SAFETY: nobody uses the slot any more; then its addresses are nobody's.
    unsafe {
        slot.give_up();
        assert!(SPACE.commit(states, 12 << 20, None), "nothing is left");
        SPACE.give_up(states, 12 << 20);
    }
}
