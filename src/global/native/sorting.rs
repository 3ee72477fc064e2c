//! Freed blocks sorted by the heap they lie in: with many heaps a batch has blocks of many.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::space::SPACE;

/// Calls `visit` with each heap's slot and its blocks among these, whose order changes. O(blocks), whatever the number
/// of heaps.
#[inline]
pub(super) fn for_each_heap(
    blocks: &mut [NonNull<u8>],
    visit: &mut dyn FnMut(usize, &[NonNull<u8>]),
) {
    let Some(first) = blocks.first() else { return };
    let slot = SPACE.slot_of(first.as_ptr());
    let count = to_front(slot, blocks);
    let (own, others) = blocks.split_at(count);
    visit(slot, own);
    // Mostly there are two.
    match others.first().map(|first| SPACE.slot_of(first.as_ptr())) {
        None => {}
        Some(slot) if SPACE.slot_has(slot, others) => visit(slot, others),
        Some(_) => others.chunks(AT_ONCE).for_each(|blocks| sort(blocks, visit)),
    }
}

/// Moves the blocks that lie in a slot to the front, and says how many there are.
#[inline(always)]
fn to_front(slot: usize, blocks: &mut [NonNull<u8>]) -> usize {
    let mut own = 0;
    for index in 0..blocks.len() {
        if SPACE.slot_of(blocks[index].as_ptr()) == slot {
            blocks.swap(own, index);
            own += 1;
        }
    }
    own
}

/// Blocks sorted at a time: what is known of them meanwhile lies on the stack, perhaps a signal's.
const AT_ONCE: usize = 128;

/// Chains that blocks are sorted into, each by the slot of its heap: with more heaps, some share one.
const CHAINS: usize = 64;

/// No block.
const NONE: u8 = u8::MAX;

#[cold]
fn sort(blocks: &[NonNull<u8>], visit: &mut dyn FnMut(usize, &[NonNull<u8>])) {
    let slot_of = |index: u8| SPACE.slot_of(blocks[usize::from(index)].as_ptr());
    // The last block of each chain, and the one before each block; which chains have some.
    let mut last = [NONE; CHAINS];
    let mut before = [NONE; AT_ONCE];
    let mut left = 0_u64;
    for index in 0..blocks.len() as u8 {
        let chain = slot_of(index) % CHAINS;
        before[usize::from(index)] = last[chain];
        last[chain] = index;
        left |= 1 << chain;
    }
    let mut own = [const { MaybeUninit::<NonNull<u8>>::uninit() }; AT_ONCE];
    while left != 0 {
        let chain = left.trailing_zeros() as usize;
        let mut index = last[chain];
        let slot = slot_of(index);
        let mut count = 0;
        // Blocks of other heaps with the same chain make one again.
        last[chain] = NONE;
        while index != NONE {
            let next = before[usize::from(index)];
            if slot_of(index) == slot {
                own[count].write(blocks[usize::from(index)]);
                count += 1;
            } else {
                before[usize::from(index)] = last[chain];
                last[chain] = index;
            }
            index = next;
        }
        if last[chain] == NONE {
            left &= left - 1;
        }
        // SAFETY: so many were written.
        visit(slot, unsafe { core::slice::from_raw_parts(own.as_ptr().cast(), count) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global::native::registry;

    /// Blocks of many heaps, some of which share a chain, are sorted: each heap once for as many as are sorted at a time,
    /// with all of its blocks.
    #[test]
    fn blocks_of_many_heaps_are_sorted() {
        // The addresses are known now.
        registry::heap_for_test();
        for slots in [&[3][..], &[3, 4], &[0, 64, 128, 1, 2, 65, 5], &[7, 71, 135]] {
            for count in [1, 2, 100, 300] {
                let slot_of = |index: usize| slots[index * 7 % slots.len()];
                let place =
                    |index: usize| SPACE.slot(slot_of(index)).wrapping_add(16 * (1 + index));
                let block = |index| NonNull::new(place(index)).expect("it is not null");
                let mut blocks: Vec<_> = (0..count).map(block).collect();
                let mut sorted = Vec::new();
                let mut visits = 0;
                for_each_heap(&mut blocks, &mut |slot, own| {
                    assert!(own.iter().all(|block| SPACE.slot_of(block.as_ptr()) == slot));
                    sorted.extend_from_slice(own);
                    visits += 1;
                });
                assert!(visits <= 2 + slots.len() * count.div_ceil(AT_ONCE), "{visits}");
                sorted.sort_unstable();
                let mut expected: Vec<_> = (0..count).map(block).collect();
                expected.sort_unstable();
                assert_eq!(sorted, expected);
            }
        }
    }
}
