//! A lock for firmware: the critical section that the crate `critical-section` provides on this
//! machine.

use core::cell::Cell;
use core::fmt;

use critical_section::RestoreState;

use super::{Lock, NewLock, Single};

/// A critical section: on one processor, it disables interrupts. An arena's work in it is bounded
/// (with [`small`](crate::small)). Using the arena from a visitor of its own walk panics.
pub struct CriticalSection {
    single: Single,
    /// The state to restore when the section is left.
    restore: Cell<RestoreState>,
}

/// Without the cells, which may be read only within a critical section.
impl fmt::Debug for CriticalSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CriticalSection").finish_non_exhaustive()
    }
}

// SAFETY: the cells are accessed only within a critical section, so by one thread or handler at a
// time.
unsafe impl Sync for CriticalSection {}

// SAFETY: the section excludes others; `Single` panics on a second `lock` within the section.
unsafe impl Lock for CriticalSection {
    #[inline]
    fn lock(&self) {
        /// Leaves the section if taking the lock panics.
        struct Leave(RestoreState);
        impl Drop for Leave {
            fn drop(&mut self) {
                // SAFETY: matches the `acquire` below.
                unsafe { critical_section::release(self.0) };
            }
        }

        // SAFETY: released by `unlock`, or by `Leave` if the lock cannot be taken: once for each
        // `acquire`, in reverse order.
        let leave = Leave(unsafe { critical_section::acquire() });
        self.single.lock();
        self.restore.set(leave.0);
        core::mem::forget(leave);
    }

    #[inline]
    unsafe fn unlock(&self) {
        let restore = self.restore.get();
        // SAFETY: the caller took the lock, and so is still in the section.
        unsafe {
            self.single.unlock();
            critical_section::release(restore);
        }
    }
}

impl NewLock for CriticalSection {
    const NEW: Self = Self { single: Single::NEW, restore: Cell::new(RestoreState::invalid()) };
}
