//! Puts settings that are decided once in OS pages of their own. [Hardened
//! mode](crate::global::native::hardened) makes these pages read-only, so that no stray or hostile
//! write can switch it off or move the heaps.

use core::ops::Deref;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use crate::os;

/// A value that shares no OS page with another, and so no cache line either.
#[derive(Debug)]
#[cfg_attr(all(target_arch = "aarch64", target_vendor = "apple"), repr(C, align(16384)))]
#[cfg_attr(all(target_arch = "aarch64", not(target_vendor = "apple")), repr(C, align(65536)))]
#[cfg_attr(not(target_arch = "aarch64"), repr(C, align(4096)))]
pub(in crate::global::native) struct Sealed<T> {
    /// The value, at the start of its OS pages.
    value: T,
    /// Whether the pages are read-only.
    is_sealed: AtomicBool,
}

impl<T> Sealed<T> {
    /// Puts a value, still writable, in OS pages of its own.
    pub(in crate::global::native) const fn new(value: T) -> Self {
        Self { value, is_sealed: AtomicBool::new(false) }
    }

    /// Makes the value read-only: from now on, a write to it raises SIGSEGV. Returns whether that
    /// was possible; it is not if OS pages are larger than the value's alignment.
    pub(in crate::global::native) fn seal(&'static self) -> bool {
        if align_of::<Self>() < os::page_size() {
            return false;
        }
        self.is_sealed.store(true, Relaxed);
        // SAFETY: the pages hold only this value, which nothing writes to while it is sealed.
        let done = unsafe { os::forbid_writes(self.start(), size_of::<Self>()) };
        if !done {
            self.is_sealed.store(false, Relaxed);
        }
        done
    }

    /// Runs `action`, which writes to the value; if the value is sealed, unseals it meanwhile. If
    /// the system refuses, does nothing and returns `None`. Call from one thread at a time.
    pub(in crate::global::native) fn change<R>(
        &'static self,
        action: impl FnOnce() -> R,
    ) -> Option<R> {
        let is_sealed = self.is_sealed.load(Relaxed);
        // SAFETY: the pages are accessible already, and hold only this value.
        if is_sealed && !unsafe { os::commit(self.start(), size_of::<Self>()) } {
            return None;
        }
        let result = action();
        if is_sealed {
            self.seal();
        }
        Some(result)
    }

    /// Returns where the pages start.
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
    use std::process::ExitStatus;

    use super::*;
    use crate::os::alone;

    static VALUE: Sealed<AtomicU32> = Sealed::new(AtomicU32::new(1));
    static BESIDE: AtomicU32 = AtomicU32::new(1);

    /// Returns whether the process was stopped by an access to memory.
    fn touched(status: ExitStatus) -> bool {
        #[cfg(unix)]
        return std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGSEGV);
        #[cfg(windows)]
        return status.code() == Some(windows_sys::Win32::Foundation::STATUS_ACCESS_VIOLATION);
    }

    #[test]
    #[ignore = "in a process of its own, which the system stops"]
    fn written() {
        VALUE.seal();
        VALUE.store(2, Relaxed);
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn written_beside() {
        VALUE.seal();
        BESIDE.store(2, Relaxed);
    }

    #[test]
    fn a_write_to_a_sealed_value_stops_the_process() {
        let can_be_sealed = VALUE.seal();
        assert_eq!(
            touched(alone::run("global::native::base::sealed::tests::written").status),
            can_be_sealed
        );
        alone::passes("global::native::base::sealed::tests::written_beside");
        assert_eq!(VALUE.load(Relaxed), 1);
        assert_eq!(VALUE.change(|| VALUE.store(3, Relaxed)), Some(()));
        assert_eq!((VALUE.load(Relaxed), VALUE.is_sealed.load(Relaxed)), (3, can_be_sealed));
    }
}
