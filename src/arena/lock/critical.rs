//! The lock of firmware: what the crate `critical-section` is on this machine.

use core::cell::Cell;
use core::fmt;

use critical_section::RestoreState;

use super::{Lock, NewLock, Single};

/// A critical section: on one processor, interrupts wait. What an arena does in it is bounded
/// ([`small`](crate::small)). Using an arena that is in use, which only a visitor of its walk can, panics.
pub struct CriticalSection {
    single: Single,
    /// Of who is in the section.
    restore: Cell<RestoreState>,
}

/// Without its state, which who formats it may not read outside of the section.
impl fmt::Debug for CriticalSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CriticalSection").finish_non_exhaustive()
    }
}

// SAFETY: the cells are reached within a critical section alone, by one at a time.
unsafe impl Sync for CriticalSection {}

// SAFETY: the section keeps others out; who is in it already is stopped by `Single`.
unsafe impl Lock for CriticalSection {
    #[inline]
    fn lock(&self) {
        /// Leaves the section if the lock cannot be taken.
        struct Leave(RestoreState);
        impl Drop for Leave {
            fn drop(&mut self) {
                // SAFETY: of the `acquire` below.
                unsafe { critical_section::release(self.0) };
            }
        }

        // SAFETY: released by `unlock`, or if the lock cannot be taken: as often as it is acquired, last in
        // first out.
        let leave = Leave(unsafe { critical_section::acquire() });
        self.single.lock();
        self.restore.set(leave.0);
        core::mem::forget(leave);
    }

    #[inline]
    unsafe fn unlock(&self) {
        let restore = self.restore.get();
        // SAFETY: the caller took the lock, and is in the section still.
        unsafe {
            self.single.unlock();
            critical_section::release(restore);
        }
    }
}

impl NewLock for CriticalSection {
    const NEW: Self = Self { single: Single::NEW, restore: Cell::new(RestoreState::invalid()) };
}
