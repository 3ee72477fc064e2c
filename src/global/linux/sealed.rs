//! Settings that are decided once, in OS pages of their own: [hardened mode](super::hardened) has them read-only, so
//! that no stray or hostile write switches it off or moves the heaps.

use core::ops::Deref;

use crate::os;

/// A value that shares no OS page with another, and so no cache line either.
#[derive(Debug)]
#[cfg_attr(target_arch = "aarch64", repr(C, align(65536)))]
#[cfg_attr(not(target_arch = "aarch64"), repr(C, align(4096)))]
pub(super) struct Sealed<T>(T);

impl<T> Sealed<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(value)
    }

    /// Has the value read-only from now on: who writes to it gets SIGSEGV. Whether it could be done: not where OS
    /// pages are larger than a value's alignment.
    pub(super) fn seal(&'static self) -> bool {
        self.is_whole_pages() && {
            // SAFETY: the pages are this value's alone, which nobody writes to while it is sealed.
            unsafe { os::forbid_writes(self.start(), size_of::<Self>()) }
        }
    }

    /// Has the value writable again; whether it is.
    pub(super) fn unseal(&'static self) -> bool {
        !self.is_whole_pages() || {
            // SAFETY: the pages are accessible already, and this value's.
            unsafe { os::commit(self.start(), size_of::<Self>()) }
        }
    }

    fn is_whole_pages(&self) -> bool {
        align_of::<Self>() >= os::page_size()
    }

    fn start(&'static self) -> *mut u8 {
        (&raw const *self).cast_mut().cast()
    }
}

impl<T> Deref for Sealed<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use core::sync::atomic::AtomicU32;
    use core::sync::atomic::Ordering::Relaxed;

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
        assert!(VALUE.unseal());
        VALUE.store(3, Relaxed);
        assert_eq!(VALUE.load(Relaxed), 3);
    }
}
