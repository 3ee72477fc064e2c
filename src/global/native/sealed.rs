//! Settings that are decided once, in OS pages of their own: [hardened mode](super::hardened) has them read-only, so
//! that no stray or hostile write switches it off or moves the heaps.

use core::ops::Deref;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use crate::os;

/// A value that shares no OS page with another, and so no cache line either.
#[derive(Debug)]
#[cfg_attr(target_arch = "aarch64", repr(C, align(65536)))]
#[cfg_attr(not(target_arch = "aarch64"), repr(C, align(4096)))]
pub(super) struct Sealed<T> {
    value: T,
    is_sealed: AtomicBool,
}

impl<T> Sealed<T> {
    pub(super) const fn new(value: T) -> Self {
        Self { value, is_sealed: AtomicBool::new(false) }
    }

    /// Has the value read-only from now on: who writes to it gets SIGSEGV. Whether it could be done: not where OS
    /// pages are larger than a value's alignment.
    pub(super) fn seal(&'static self) -> bool {
        if align_of::<Self>() < os::page_size() {
            return false;
        }
        self.is_sealed.store(true, Relaxed);
        // SAFETY: the pages are this value's alone, which nobody writes to while it is sealed.
        let done = unsafe { os::forbid_writes(self.start(), size_of::<Self>()) };
        if !done {
            self.is_sealed.store(false, Relaxed);
        }
        done
    }

    /// Runs an action that writes to the value, which stays sealed but for that if it is; `None`, and nothing is
    /// done, where the system refuses. To be called by one thread at a time.
    pub(super) fn change<R>(&'static self, action: impl FnOnce() -> R) -> Option<R> {
        let is_sealed = self.is_sealed.load(Relaxed);
        // SAFETY: the pages are accessible already, and this value's.
        if is_sealed && !unsafe { os::commit(self.start(), size_of::<Self>()) } {
            return None;
        }
        let result = action();
        if is_sealed {
            self.seal();
        }
        Some(result)
    }

    fn start(&'static self) -> *mut u8 {
        (&raw const *self).cast_mut().cast()
    }
}

impl<T> Deref for Sealed<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use core::sync::atomic::AtomicU32;

    use super::*;

    /// How a child of a fork ends that writes to a value.
    fn status_of_writing(to: &AtomicU32) -> i32 {
        let mut status = 0;
        // SAFETY: the child does no more than write and end.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                to.store(2, Relaxed);
                libc::_exit(0);
            }
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        }
        status
    }

    #[test]
    fn who_writes_to_what_is_sealed_is_stopped() {
        static VALUE: Sealed<AtomicU32> = Sealed::new(AtomicU32::new(1));
        static BESIDE: AtomicU32 = AtomicU32::new(1);
        assert_eq!(status_of_writing(&VALUE), 0);
        if VALUE.seal() {
            let status = status_of_writing(&VALUE);
            assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV);
            assert_eq!((VALUE.load(Relaxed), status_of_writing(&BESIDE)), (1, 0));
        }
        assert_eq!(VALUE.change(|| VALUE.store(3, Relaxed)), Some(()));
        assert_eq!(VALUE.load(Relaxed), 3);
        let is_sealed = VALUE.is_sealed.load(Relaxed);
        assert_eq!(status_of_writing(&VALUE) != 0, is_sealed, "it is sealed again if it was");
    }
}
