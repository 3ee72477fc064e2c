//! Quick lists in hardened mode: nobody knows which block comes next.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::compiler_fence;

use super::lists::{Lists, at, blocks, entry};

/// When a list counts as having too few blocks to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::global::native) enum Low {
    /// When it is empty.
    Empty,
    /// When it has an eighth of its capacity or less.
    Eighth,
}

/// Removes the block that has `choose(count)` others above it, where `count` is the number of
/// blocks on the list; returns it with its size in bytes. The last block takes its place. `None` if
/// the list has [too few](Low) blocks, or [periodic work](Lists::do_periodic_work) is due.
///
/// # Safety
/// As for [`pop`](super::pop); `choose` returns a number less than `count`.
#[inline(always)]
pub(in crate::global::native) unsafe fn pop_any(
    lists: *mut Lists,
    offset: u32,
    low: Low,
    choose: impl FnOnce(u32) -> u32,
) -> Option<(NonNull<u8>, usize)> {
    let list = at(lists, offset);
    // SAFETY: as in `pop`.
    unsafe {
        let top = (*list).top.load(Relaxed);
        let count = top.saturating_sub((*list).bottom());
        let least = if low == Low::Eighth { (*list).capacity() / 8 } else { 0 };
        if count <= least || !(*lists).countdown.count_pop() {
            return None;
        }
        let place = entry(lists, top - choose(count)).cast::<NonNull<u8>>();
        let last = entry(lists, top).cast::<NonNull<u8>>().read();
        // Uncount the last block before moving it: no block may ever be counted twice.
        (*list).top.store(top - 1, Relaxed);
        compiler_fence(Release);
        let block = place.read();
        place.write(last);
        Some((block, usize::from((*list).size)))
    }
}

/// Puts the `before` blocks that were on a list before a [refill](super::refill) above the new
/// batch, so that they are popped first and the batch after them. A batch that does not start
/// [near](NEAR) their end begins at any of its blocks instead of the first: the `choose(its
/// length)` blocks before that one are popped last.
///
/// # Safety
/// As for [`pop`](super::pop).
pub(in crate::global::native) unsafe fn deal(
    lists: *mut Lists,
    offset: u32,
    before: usize,
    choose: impl FnOnce(u32) -> u32,
) {
    let list = at(lists, offset);
    // SAFETY: as in `pop`. The list is shut meanwhile: the child of a fork must not find a block
    // twice, nor a signal handler free one onto the list.
    unsafe {
        let (capacity, count) = ((*list).capacity(), (*list).count());
        (*list).shut();
        compiler_fence(Release);
        let first = blocks(lists, list).cast::<NonNull<u8>>();
        deal_blocks(core::slice::from_raw_parts_mut(first, count as usize), before, choose);
        compiler_fence(Release);
        (*list).open(capacity, count);
    }
}

/// A batch continues the blocks before it if it starts less than this many bytes behind the last of
/// them.
const NEAR: usize = 4 << 10;

/// As [`deal`], of a list with these blocks.
fn deal_blocks(blocks: &mut [NonNull<u8>], before: usize, choose: impl FnOnce(u32) -> u32) {
    let (old, batch) = blocks.split_at_mut(before.min(blocks.len()));
    // The lowest address of a batch is on top. So the one popped last is the highest of the batch
    // before, if that is what the list has.
    let goes_on = old.first().zip(batch.last()).is_some_and(|(end, start)| {
        (1..NEAR).contains(&start.addr().get().wrapping_sub(end.addr().get()))
    });
    if !goes_on {
        batch.rotate_right(choose(batch.len() as u32) as usize);
    }
    let old = old.len();
    blocks.rotate_left(old);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the addresses in units of 16 bytes, in the order in which they are popped, after
    /// these blocks were dealt.
    fn dealt(old: &[usize], batch: &[usize]) -> Vec<usize> {
        let mut blocks: Vec<_> = old
            .iter()
            .rev()
            .chain(batch.iter().rev())
            .map(|unit| NonNull::new(core::ptr::without_provenance_mut(unit * 16)).expect("not 0"))
            .collect();
        deal_blocks(&mut blocks, old.len(), |count| count / 2);
        blocks.iter().rev().map(|block| block.addr().get() / 16).collect()
    }

    /// What was on a list is popped before the batch. The batch follows in order if it goes on
    /// where that ends; else it begins anywhere.
    #[test]
    fn a_batch_comes_after_the_blocks_before_it() {
        assert_eq!(dealt(&[1, 3, 2], &[4, 6, 8, 9]), [1, 3, 2, 4, 6, 8, 9]);
        assert_eq!(dealt(&[100, 300], &[555, 556]), [100, 300, 555, 556]);
        assert_eq!(dealt(&[100, 300], &[556, 557]), [100, 300, 557, 556]);
        assert_eq!(dealt(&[1000], &[1, 2, 3, 4]), [1000, 3, 4, 1, 2]);
        assert_eq!(dealt(&[], &[1, 2, 3, 4, 5]), [3, 4, 5, 1, 2]);
        assert_eq!(dealt(&[5, 6], &[]), [5, 6]);
        assert_eq!(dealt(&[], &[]), []);
    }
}
