//! Checks that stack addresses are readable before reading them: unwind tables may be wrong, and
//! that must not crash the program.

use core::ops::Range;

const PAGE: u64 = 4096;
/// No stack is longer than this many bytes.
const FARTHEST: u64 = 64 << 20;

/// The pages of the stack known to be readable: `near` from the start of the walk on, and `far`
/// pages found since. Pages between the two may be unmapped.
pub(super) struct Readable {
    near: Range<u64>,
    far: Range<u64>,
    known: Known,
}

/// A part of a thread's stack that stays mapped as long as the thread runs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Known {
    /// The empty part.
    pub(super) const NONE: Self = Self { start: 0, end: 0 };
}

impl Readable {
    /// Starts at the stack pointer, whose page is readable; pages in `known` are not checked again.
    #[inline]
    pub(super) fn at(stack: u64, known: Known) -> Self {
        let mut readable = Self { near: stack..(stack | (PAGE - 1)) + 1, far: 0..0, known };
        readable.meet();
        readable
    }

    /// Returns the word at an address of the stack, if it is aligned and readable.
    #[inline]
    pub(super) fn word(&mut self, address: u64) -> Option<u64> {
        if !address.is_multiple_of(8) || address < self.near.start {
            return None;
        }
        let is_known = self.near.contains(&address) || self.far.contains(&address);
        if !is_known && !self.extend(address) {
            return None;
        }
        // SAFETY: the word's page was found readable. It belongs to frames of our callers, which
        // stay mapped while we run.
        Some(unsafe { core::ptr::with_exposed_provenance::<u64>(address as usize).read_volatile() })
    }

    /// Returns the contiguous range found readable, from the start of the walk on.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn near(&self) -> Range<u64> {
        self.near.clone()
    }

    /// Returns whether the stack is readable from the start of the walk up to the word at
    /// `address`.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn reaches(&mut self, address: u64) -> bool {
        address < self.near.end || self.reach(address)
    }

    #[cfg(target_arch = "x86_64")]
    #[cold]
    fn reach(&mut self, address: u64) -> bool {
        /// The most pages checked on the way. The walk checks the page of an address farther away
        /// by itself.
        const MOST: u64 = 16;
        address - self.near.end < MOST * PAGE
            && core::iter::repeat_with(|| self.near.end > address || self.extend(self.near.end))
                .take(MOST as usize)
                .all(|found| found)
    }

    /// Adds the known part, if it begins at or below the end of the range found so far and reaches
    /// beyond it.
    #[inline]
    fn meet(&mut self) {
        if self.known.start <= self.near.end && self.near.end < self.known.end {
            self.near.end = self.known.end;
        }
    }

    /// Returns whether the page of an address is readable.
    #[cold]
    fn extend(&mut self, address: u64) -> bool {
        let page = address & !(PAGE - 1);
        if address - self.near.start > FARTHEST || !probe(page) {
            return false;
        }
        if page == self.near.end {
            self.near.end += PAGE;
            self.meet();
        } else if page == self.far.end {
            self.far.end += PAGE;
        } else {
            self.far = page..page + PAGE;
        }
        true
    }
}

/// Returns whether the kernel can read at an address. Asks it to change the signal mask with an
/// invalid operation: the kernel reads the new mask first, and fails either way.
fn probe(address: u64) -> bool {
    const NO_WAY: usize = usize::MAX;
    // SAFETY: the call changes nothing; `errno` belongs to the calling thread.
    unsafe {
        let errno = libc::__errno_location();
        let kept = *errno;
        let null = core::ptr::null_mut::<u8>();
        libc::syscall(libc::SYS_rt_sigprocmask, NO_WAY, address as usize, null, 8_usize);
        let readable = *errno != libc::EFAULT;
        *errno = kept;
        readable
    }
}
