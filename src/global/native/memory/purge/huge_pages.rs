//! Gives back whole huge pages of free memory, which the engine's lists of free blocks lead to. A
//! [walk](super::walk) finds them, too, but has to pass the blocks in use on its way. Sixteen of
//! them take it 3 to 8 µs, and a heap that grows has 100 µs for each mebibyte.
//!
//! The heap's lock is held while one goes back: some 6 µs, and 60 if its memory is in OS pages.

use super::{Purge, TAGS};
use crate::global::native::base::visit::Visit;
use crate::global::native::memory::huge::{HUGE, Walked};
use crate::global::native::memory::slot::Slot;
use crate::global::native::memory::space::SPACE;
use crate::global::native::memory::zero::Zeros;
use crate::os;
use crate::pages::PageHeap;

/// The most free blocks met in one search: those at the front may have gone back before.
const MOST_BLOCKS: usize = 256;

/// The most huge pages in one search that the system refuses to take back.
const MOST_REFUSED: usize = 8;

impl Purge {
    /// Gives back one huge page of free memory, the first found of which anything is resident.
    /// Returns the bytes given back; 0 if the search found none before the visit was over, or where
    /// [`Zeros`] cannot tell what went back before. O(blocks and huge pages met).
    #[cold]
    pub(in crate::global::native) fn give_back_huge_page(
        &mut self,
        engine: &PageHeap<Slot>,
        zeros: &mut Zeros,
        visit: &mut Visit,
    ) -> usize {
        if self.delay == u32::MAX || !os::DISCARDED_ARE_ZEROS {
            return 0;
        }
        let mut refused = 0;
        for free in engine.large_free_blocks(HUGE).take(MOST_BLOCKS) {
            let mut at = (free.start + TAGS).next_multiple_of(HUGE);
            let end = free.end().saturating_sub(TAGS) & !(HUGE - 1);
            while at < end {
                // Skips what went back before and was not used since.
                at = zeros.skip(at..end) & !(HUGE - 1);
                if at == end {
                    break;
                }
                if refused == MOST_REFUSED || visit.is_over() {
                    return 0;
                }
                match give_back(engine.source(), at, zeros) {
                    Some(0) => {}
                    Some(bytes) => {
                        self.note_given_back(engine, bytes);
                        return bytes;
                    }
                    None => refused += 1,
                }
                at += HUGE;
            }
        }
        0
    }
}

/// Gives back the free huge page at this address, all of it, so that `zeros` knows it as such and
/// the next search skips it. Returns how many bytes of it were resident; `None` if the system
/// refuses.
fn give_back(source: &Slot, at: usize, zeros: &mut Zeros) -> Option<usize> {
    let page = SPACE.pointer(at)..SPACE.pointer(at + HUGE);
    let mut written = 0;
    os::for_each_resident(page.start, HUGE, &mut |_, len| written += len);
    // SAFETY: the huge page lies within a free block below the pages, without the bookkeeping at
    // the block's ends, and the caller holds the heap's lock.
    if !unsafe { os::discard(page.start, HUGE) } {
        return None;
    }
    zeros.note_given_back(at..at + HUGE);
    SPACE.discard_states(page.start, HUGE);
    let mut walked = Walked::NOTHING;
    source.huge().note_free(&mut walked, Some((page, written)));
    source.huge().note_free(&mut walked, None);
    Some(written)
}
