//! Where slots are and which slot an address belongs to, in spaces other than the process's own.

use super::*;
use crate::global::Hardening;
use crate::global::tuning::Tuning;
use crate::os::alone;

/// Gives reserved addresses back: with 32 bits other tests need them.
#[cfg(unix)]
impl Drop for Space {
    fn drop(&mut self) {
        if self.is_reservation.load(Relaxed) {
            let base = self.base.load(Relaxed);
            let len = self.table.load(Relaxed).addr() - base.addr();
            // SAFETY: all of it was reserved, and nothing uses a space that is dropped.
            unsafe { os::release(base, len + bytes_behind(len)) };
        }
    }
}

fn opened(heaps: usize) -> (Space, usize) {
    let space = Space::new();
    let slots = space.open(heaps).expect("there are addresses");
    (space, slots)
}

#[test]
fn an_address_belongs_to_the_slot_it_lies_in() {
    for heaps in [1, 3, 8, 100] {
        let (space, slots) = opened(heaps);
        let len = space.slot_len();
        // With 32 bits there are addresses for few slots.
        assert!(slots >= heaps || len == LEAST_SLOT);
        assert!(slots.is_power_of_two() && len.is_power_of_two());
        assert!((LEAST_SLOT..=LARGEST_SLOT).contains(&len));
        let base = space.slot(0);
        assert!(base.addr().is_multiple_of(ALIGN));
        let at = |bytes: usize| base.wrapping_add(bytes);
        assert_eq!(space.slot(slots - 1), at((slots - 1) * len));

        // Where addresses are plentiful the space is a window, and its place cannot be predicted.
        if os::addresses().is_some() && !(cfg!(windows) && heaps == 100) {
            assert!(!space.is_reservation.load(Relaxed));
            let (other, _) = opened(heaps);
            assert!(other.slot(0) != base);
        }

        // Without heaps no address is a block.
        assert!(!space.contains(base) && space.list_of(base).is_none());
        let two = slots.min(2);
        space.publish_heaps(two);
        for inside in [0, HALF_UNIT, UNIT, len - UNIT, (two - 1) * len, two * len - UNIT] {
            assert!(space.contains(at(inside)), "{inside:#x}");
            assert_eq!(space.slot_of(at(inside)), inside / len);
        }
        for outside in [1, 4, len - 1, two * len, two * len + UNIT] {
            assert!(!space.contains(at(outside)), "{outside:#x}");
        }
        assert!(!space.contains(base.wrapping_sub(UNIT)) && !space.contains(ptr::null_mut()));
        let last = ptr::without_provenance_mut(usize::MAX - (UNIT - 1));
        assert!(!space.contains(last));
    }
}

#[test]
fn blocks_of_one_slot_are_told_from_others() {
    // The addresses alone decide, whether there are four slots or, with 32 bits, fewer.
    let (space, _) = opened(4);
    let len = space.slot_len();
    let block = |bytes: usize| NonNull::new(space.slot(0).wrapping_add(bytes)).expect("not null");
    let own = [block(len), block(len + UNIT), block(2 * len - UNIT)];
    assert!(space.slot_has(1, &own) && space.slot_has(1, &own[..1]) && space.slot_has(1, &[]));
    for other in [0, len - UNIT, 2 * len, 3 * len] {
        assert!(!space.slot_has(1, &[block(other)]), "{other:#x}");
        assert!(!space.slot_has(1, &[own[0], own[2], block(other)]), "{other:#x}");
        assert!(!space.slot_has(1, &[block(other), own[1]]), "{other:#x}");
    }
}

/// Memory that ends where the slots begin, or begins where they end, does not meet them.
#[test]
fn memory_that_overlaps_the_slots_is_recognized() {
    let (space, slots) = opened(4);
    let (base, all) = (space.slot(0), slots * space.slot_len());
    let at = |bytes: usize| base.wrapping_add(bytes);
    let before = base.wrapping_sub(0x3000);
    assert!(!space.overlaps(before, 0x3000));
    assert!(space.overlaps(before, 0x3001));
    assert!(
        space.overlaps(base, 1)
            && space.overlaps(at(all - 1), 1)
            && space.overlaps(at(all - 1), 0x2000)
    );
    assert!(!space.overlaps(at(all), 0x3000));
}

/// The entries of all slots follow the slots without gaps, one per granule, and the marks follow
/// the entries. All these addresses were unused.
#[test]
fn every_granule_has_an_entry_of_its_own() {
    let (space, slots) = opened(16);
    let len = space.slot_len();
    let mut next = space.slot(0).wrapping_add(slots * len);
    for table in 0..2 {
        for slot in 0..slots {
            let (tables, bytes) = space.tables_of(slot);
            assert_eq!((tables[table], bytes), (next, len / GRANULE * 4));
            assert!(space.states_of(slot).is_none(), "not in hardened mode");
            next = next.wrapping_add(bytes);
        }
    }
    assert_eq!(next.addr() - space.slot(0).addr(), slots * len + bytes_behind(slots * len));
}

/// In hardened mode the states follow the marks after a gap, one byte per unit of each slot.
#[test]
#[cfg(not(miri))]
fn every_unit_has_a_state_in_hardened_mode() {
    alone::passes("global::native::memory::space::tests::hardened");
}

#[test]
#[ignore = "in a process of its own"]
fn hardened() {
    mode::open(&Tuning::new().hardening(Hardening::CHECKS));
    let (space, slots) = opened(4);
    let len = space.slot_len();
    let mut next = space.slot(0).wrapping_add(slots * len + 2 * table_len(slots * len) + ALIGN);
    for slot in 0..slots {
        assert_eq!(space.states_of(slot), Some((next, len / UNIT)));
        next = next.wrapping_add(len / UNIT);
    }
    assert_eq!(next.addr() - space.slot(0).addr(), slots * len + bytes_behind(slots * len));

    // Discarding states frees the whole OS pages between the two ends.
    let page = os::page_size();
    let (states, _) = space.states_of(0).expect("there are some");
    let state = |unit: usize| space.slot(0).wrapping_add(unit * UNIT);
    for (from, to, gone) in [
        (0, 2 * page, 0..2 * page),
        (1, 3 * page + 7, page..3 * page),
        (page, page + 1, 0..0),
        (3, 5, 0..0),
        (page, 4 * page, page..4 * page),
        (0, 3 * page, 0..3 * page),
        (0, 2 * page + 7, 0..2 * page),
    ] {
        // SAFETY: nobody else has the slot, and this is where its states belong; they are given up
        // each time.
        unsafe {
            assert!(space.commit(states, 4 * page, None));
            states.write_bytes(3, 4 * page);
            space.discard_states(state(from), (to - from) * UNIT);
            let bytes = core::slice::from_raw_parts(states, 4 * page);
            let is_left =
                |(unit, &byte): (usize, &u8)| byte == if gone.contains(&unit) { 0 } else { 3 };
            assert!(bytes.iter().enumerate().all(is_left), "{from}..{to}");
            // A page whose states were forgotten has no block starts.
            states.write_bytes(3, 4 * page);
            space.forget_states(state(5), 20 * UNIT);
            let bytes = core::slice::from_raw_parts(states, 4 * page);
            assert!(
                bytes
                    .iter()
                    .enumerate()
                    .all(|(unit, &byte)| (byte == 0) == (5..25).contains(&unit))
            );
            space.give_up(states, 4 * page);
        }
    }
}

/// The list of a page or of a block is stored for all its granules, and for no others.
#[test]
fn the_list_of_a_page_is_that_of_all_its_granules() {
    let (space, _) = opened(2);
    space.publish_heaps(1);
    let ([table, _], _) = space.tables_of(0);
    // SAFETY: the space found these addresses unused.
    assert!(unsafe { space.commit(table, TABLE_STEP, None) });
    let at = |granule: usize| space.slot(0).wrapping_add(granule * GRANULE);
    space.set_list(at(4), 3 * GRANULE, 77);
    space.set_list(at(9).wrapping_add(GRANULE - UNIT), UNIT, 99);
    let lists: Vec<_> = (3..11).map(|granule| space.list_of(at(granule))).collect();
    assert_eq!(lists, [0, 77, 77, 77, 0, 0, 99, 0].map(Some));
    let last = at(4).wrapping_add(3 * GRANULE - UNIT);
    assert_eq!(space.list_of(last), Some(77));
    assert_eq!(space.list_of(last.wrapping_add(1)), None, "no block starts there");
    // A long block begins and ends within granules.
    space.set_list(at(20).wrapping_add(GRANULE / 2), 18 * GRANULE, 55);
    let long: Vec<_> = (0..50).filter(|&granule| space.list_of(at(granule)) == Some(55)).collect();
    assert_eq!(long, (20..39).collect::<Vec<_>>());
    // A page that now belongs to another class keeps that class's list.
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    for (from, to, then) in [(99, 98, 98), (99, 97, 98), (98, 0, 0)] {
        space.change_list(at(9), from, to);
        assert_eq!(space.list_of(at(9)), Some(then));
    }
    // SAFETY: nobody uses the table any more.
    unsafe { space.give_up(table, TABLE_STEP) };
}

/// After a heap could not be made, the next attempt in the same slot finds zeros, in a window and
/// in a reservation.
#[test]
fn memory_given_up_is_zeros_the_next_time() {
    let (window, _) = opened(2);
    let (base, len) = reservation().expect("there are addresses");
    let reserved = Space::new();
    reserved.base.store(base, Relaxed);
    reserved.slot_shift.store(len.trailing_zeros(), Relaxed);
    reserved.table.store(base.wrapping_add(len).cast(), Relaxed);
    reserved.is_reservation.store(true, Relaxed);
    let page = os::page_size();
    for space in [window, reserved] {
        assert!(space.reserve_slot(0));
        let start = space.slot(0);
        for _ in 0..2 {
            // SAFETY: the slot is this test's.
            unsafe {
                assert!(space.reserve_slot(0) && space.commit(start, 2 * page, None));
                assert_eq!((start.read(), start.add(2 * page - 1).read()), (0, 0));
                start.write_bytes(1, 2 * page);
                space.give_up(start.add(page), 0);
                assert_eq!(start.read(), 1, "nothing is given up");
                space.give_up(start, 2 * page);
            }
        }
    }
}

/// On Windows only slots with heaps take addresses, not those that may get a heap later.
#[test]
fn a_slot_takes_addresses_when_it_gets_its_heap() {
    let (space, slots) = opened(2);
    if !os::NEEDS_RESERVATION || space.is_reservation.load(Relaxed) {
        return;
    }
    let is_free = |slot| os::is_free(space.slot(slot), space.slot_len());
    assert!(slots > 1 && (0..slots).all(is_free));
    assert!(space.reserve_slot(0) && !is_free(0) && is_free(1));
    assert!(space.reserve_slot(1) && !is_free(1));
    assert!(
        os::reserve_at(space.slot(2), 1 << 16) && !space.reserve_slot(2),
        "something else lies there"
    );
}

/// Where addresses are limited, the slots take at most half of them.
#[test]
fn slots_take_half_of_the_addresses_at_most() {
    const MIB: usize = 1 << 20;
    assert!(halves(20).eq([20, 10, 5, 2, 1]) && halves(0).next().is_none());
    for (limit, len) in [
        (usize::MAX, 64 * MIB),
        (128 * MIB, 64 * MIB),
        (128 * MIB - 2, 32 * MIB),
        (64 * MIB + 1, 32 * MIB),
        (MIB, MIB / 2),
        (3, 1),
        (0, 0),
    ] {
        assert_eq!(within(limit, 64 * MIB), len, "{limit:#x}");
    }
}

/// A reservation has room for the slots and their tables.
#[test]
fn a_reservation_has_room_for_what_lies_beside_the_slots() {
    let (start, len) = reservation().expect("there are addresses");
    assert!(start.addr().is_multiple_of(ALIGN) && len.is_power_of_two());
    assert!((LEAST..=LARGEST).contains(&len));
    let all = len + bytes_behind(len);
    let page = os::page_size();
    for at in [0, len, all - page] {
        let place = start.wrapping_add(at & !(page - 1));
        // SAFETY: the addresses are reserved, and this test's own.
        unsafe {
            assert!(os::commit(place, page));
            place.write_bytes(1, page);
        }
    }
    // SAFETY: nobody uses the addresses any more.
    unsafe { os::release(start, all) };
}

/// A window lies at random between 13 and 20 thirty-seconds of the address space, where programs do
/// not map memory at addresses of their own choice, and is as long as it may be.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "the length of the address space is unknown there")]
fn a_window_lies_at_random_where_it_may() {
    let all = os::addresses().expect("they are known");
    let windows = [(); 40].map(|()| window().expect("there is one"));
    for (base, len) in windows {
        let end = base.addr() + len + bytes_behind(len);
        assert!(all / 32 * 13 <= base.addr() && end <= all / 32 * 20, "{base:?}");
        assert!(base.addr().is_multiple_of(ALIGN));
        assert_eq!(len, (all / 16).min(LARGEST));
    }
    let middle = all / 32 * 16;
    let upper = windows.iter().filter(|(base, _)| base.addr() >= middle).count();
    assert!((1..40).contains(&upper), "{upper} of them are in the upper half");
}
