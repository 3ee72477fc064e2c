//! Blocks that are known to be mappings in use, so that their headers can be read without asking
//! the system whether anything is there, as must be done with any other address. Asking takes three
//! system calls, and a program may measure a block, or resize it by a byte, millions of times.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use crate::global::native::base::apart::Apart;
use crate::words::scatter;

/// Number of places. Each address has one place; of two blocks with the same place, the one noted
/// last is known.
const PLACES: usize = 256;

/// Addresses of blocks; 0: none.
///
/// Invariant: at each of these a mapping in use has its block, unless the program frees a block
/// twice at the same time.
struct Known([AtomicUsize; PLACES]);

/// The blocks known in this process.
static KNOWN: Apart<Known> = Apart::new(Known([const { AtomicUsize::new(0) }; PLACES]));

/// Notes that a mapping in use has its block here.
pub(super) fn note(block: *mut u8) {
    KNOWN.note(block);
}

/// Forgets a block that is about to be freed, or to move.
pub(super) fn forget(block: *mut u8) {
    KNOWN.forget(block);
}

/// Returns whether this is a block noted before. If not, it may still be a block.
pub(super) fn has(block: *mut u8) -> bool {
    KNOWN.has(block)
}

impl Known {
    /// Returns the place of an address. Blocks mostly start on huge pages, so all bits but the
    /// lowest count.
    fn place(&self, block: *mut u8) -> &AtomicUsize {
        &self.0[scatter::place(block.addr() >> 6, PLACES)]
    }

    /// Notes a block instead of the one that has its place.
    fn note(&self, block: *mut u8) {
        self.place(block).store(block.addr(), Relaxed);
    }

    /// Forgets a block, unless another one has its place.
    fn forget(&self, block: *mut u8) {
        // Another block may have the place.
        let _ = self.place(block).compare_exchange(block.addr(), 0, Relaxed, Relaxed);
    }

    /// Returns whether a block has its place.
    fn has(&self, block: *mut u8) -> bool {
        !block.is_null() && self.place(block).load(Relaxed) == block.addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block is known from the time it is noted until it is forgotten, or another has its place;
    /// forgetting a block leaves others known.
    #[test]
    fn blocks_are_known_until_they_are_forgotten() {
        let known = Known([const { AtomicUsize::new(0) }; PLACES]);
        let block = |at: usize| core::ptr::without_provenance_mut::<u8>(at << 21);
        assert!(!known.has(block(0)));
        let all = || (1..=2 * PLACES).map(block);
        all().for_each(|block| known.note(block));
        let count = |known: &Known| all().filter(|&block| known.has(block)).count();
        let noted = count(&known);
        assert!((PLACES / 2..=PLACES).contains(&noted), "{noted} of {PLACES} places are used");
        for block in all() {
            let (was_known, before) = (known.has(block), count(&known));
            known.forget(block);
            assert!(!known.has(block));
            assert_eq!(count(&known), before - usize::from(was_known));
        }
        assert_eq!(count(&known), 0);
    }
}
