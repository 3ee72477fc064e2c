//! Whether the stack can be read at an address: unwind tables may be wrong, and the program must not
//! end for it.

use core::ops::Range;

const PAGE: u64 = 4096;
/// No stack is longer.
const FARTHEST: u64 = 64 << 20;

/// The parts of the stack that are known to be readable, by pages: from the frame of the walk on, and others that were
/// looked at since. What lies between them may be nothing.
pub(super) struct Readable {
    near: Range<u64>,
    far: Range<u64>,
    known: Known,
}

/// A part of a thread's stack that stays as it is as long as the thread runs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Known {
    /// Nothing.
    pub(super) const NONE: Self = Self { start: 0, end: 0 };
}

impl Readable {
    /// At the stack pointer: its page can be read, and what is known is not asked for again.
    #[inline]
    pub(super) fn at(stack: u64, known: Known) -> Self {
        let mut readable = Self { near: stack..(stack | (PAGE - 1)) + 1, far: 0..0, known };
        readable.meet();
        readable
    }

    /// The word at an address of the stack, if it is aligned and can be read.
    #[inline]
    pub(super) fn word(&mut self, address: u64) -> Option<u64> {
        if !address.is_multiple_of(8) || address < self.near.start {
            return None;
        }
        let is_known = self.near.contains(&address) || self.far.contains(&address);
        if !is_known && !self.extend(address) {
            return None;
        }
        // SAFETY: the page of the address was found readable, and it lies in the frames that called
        // us, which stay while we are here.
        Some(unsafe { core::ptr::with_exposed_provenance::<u64>(address as usize).read_volatile() })
    }

    /// What was found readable from the frame of the walk on, without a gap.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn near(&self) -> Range<u64> {
        self.near.clone()
    }

    /// Whether the stack can be read from the frame of the walk up to the word at an address.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn reaches(&mut self, address: u64) -> bool {
        address < self.near.end || self.reach(address)
    }

    #[cfg(target_arch = "x86_64")]
    #[cold]
    fn reach(&mut self, address: u64) -> bool {
        /// Pages that are looked at on the way: one that lies farther is looked at alone, by a walk.
        const MOST: u64 = 16;
        address - self.near.end < MOST * PAGE
            && core::iter::repeat_with(|| self.near.end > address || self.extend(self.near.end))
                .take(MOST as usize)
                .all(|found| found)
    }

    /// Adds what is known, where it begins at the end of what was found.
    #[inline]
    fn meet(&mut self) {
        if self.known.start <= self.near.end && self.near.end < self.known.end {
            self.near.end = self.known.end;
        }
    }

    /// Asks whether the page of an address can be read.
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

/// Whether the kernel can read at an address. It is asked to change the signal mask in a way that
/// does not exist: it reads the new mask first, and fails either way.
fn probe(address: u64) -> bool {
    const NO_WAY: usize = usize::MAX;
    // SAFETY: the call changes nothing. `errno` is the calling thread's own.
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
