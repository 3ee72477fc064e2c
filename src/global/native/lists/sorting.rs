//! Sorts freed blocks by their heaps: with many heaps, a batch contains blocks of many.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::global::native::memory::space::SPACE;

/// Calls `visit` with each heap's slot and those of the `blocks` that are in it; reorders `blocks`.
/// O(blocks), whatever the number of heaps. With more than [`AT_ONCE`] blocks, a heap may be
/// visited several times.
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
    // Mostly there are at most two heaps.
    match others.first().map(|first| SPACE.slot_of(first.as_ptr())) {
        None => {}
        Some(slot) if SPACE.slot_has(slot, others) => visit(slot, others),
        Some(_) => others.chunks(AT_ONCE).for_each(|blocks| sort(blocks, visit)),
    }
}

/// Moves the blocks that are in a slot to the front; returns their number.
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

/// Blocks sorted at a time: the arrays for this are on the stack, which may be a signal handler's.
const AT_ONCE: usize = 128;

/// Number of chains, into which blocks are sorted by the slots of their heaps. With more heaps,
/// some share a chain.
const CHAINS: usize = 64;

/// No block: the end of a chain.
const NONE: u8 = u8::MAX;

/// Calls `visit` once for each slot that has some of these blocks, at most [`AT_ONCE`], with those.
#[cold]
fn sort(blocks: &[NonNull<u8>], visit: &mut dyn FnMut(usize, &[NonNull<u8>])) {
    let slot_of = |index: u8| SPACE.slot_of(blocks[usize::from(index)].as_ptr());
    // For each chain the last block; for each block the one before it; a bit for each chain that
    // has blocks.
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
        // Blocks of other heaps in the same chain are chained again.
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
        // SAFETY: the first `count` were written.
        visit(slot, unsafe { core::slice::from_raw_parts(own.as_ptr().cast(), count) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global::native::lists::registry;

    /// Blocks of many heaps, some of which share a chain, are sorted: in each chunk, each heap is
    /// visited once, with all of its blocks.
    #[test]
    fn blocks_of_many_heaps_are_sorted() {
        // This opens the allocator, so the slots have addresses.
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
                    assert!(!own.is_empty(), "a visit for nothing");
                    assert!(own.iter().all(|block| SPACE.slot_of(block.as_ptr()) == slot));
                    sorted.extend_from_slice(own);
                    visits += 1;
                });
                let chunks = if slots.len() > 2 { count.div_ceil(AT_ONCE) } else { 1 };
                assert!(visits <= 1 + (slots.len() - 1) * chunks, "{visits} visits");
                sorted.sort_unstable();
                let mut expected: Vec<_> = (0..count).map(block).collect();
                expected.sort_unstable();
                assert_eq!(sorted, expected);
            }
        }
    }
}
