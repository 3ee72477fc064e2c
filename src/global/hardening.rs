//! What hardened mode does: [`Hardening`].

/// The parts of hardened mode, each of which can be left out. In an environment variable:
/// `PAGEWISE_HARDENED=1` for all of [`Hardening::ON`], or the names of parts, as
/// `PAGEWISE_HARDENED=canaries,random`.
///
/// Any part comes with the *checks*: a byte for each 16 bytes of a heap, apart from the blocks, says
/// whether a block in use starts there. It is looked at when a block is freed, resized or measured, and
/// again when it is handed out, so that a block freed twice, a pointer into a block or to none, and a block
/// freed with a wrong size stop the process at once, with one line.
///
/// ```
/// use pagewise::Pagewise;
/// use pagewise::global::{Hardening, Tuning};
///
/// #[global_allocator]
/// static ALLOCATOR: Pagewise = Pagewise::with(Tuning::new().hardening(Hardening::ON.quarantine(0)));
/// # fn main() { drop(vec![1, 2, 3]); }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[must_use]
pub struct Hardening {
    /// Whether blocks are checked at all. The other parts do nothing without.
    pub checks: bool,
    /// Bytes behind each block, one at least, are written when it is handed out, and compared when it is
    /// freed: a write beyond its bounds stops the process then. So are bytes before blocks above FFCROSSOVER.
    /// Costs a byte a block, so that a size which is just a class's takes the next.
    pub canaries: bool,
    /// A block is any one of eight on the thread's list of its class, not the last freed; which blocks come to
    /// the list first is random, too.
    pub random: bool,
    /// Bytes of freed blocks that each thread keeps before they are used again, the oldest first, in 1,024
    /// blocks at most; 0: none. Larger blocks are not kept.
    pub quarantine: u32,
    /// Freed blocks are zeroed, and found to be zeros still when they are next handed out, those above
    /// FFCROSSOVER when they leave the quarantine: a write meanwhile stops the process, and nothing is to
    /// be read there.
    pub zero: bool,
    /// Pages of blocks of one size are never used for another: a pointer to a freed block can only meet
    /// another of its size. Costs the memory of classes that are not used any more.
    pub pinned: bool,
    /// Guard pages: around what the allocator keeps to itself, and on both sides of blocks that are mappings
    /// of their own, as those of 1 MiB and more are then. What was decided at the start is read-only: the
    /// mode, the tables of sizes, where the heaps lie (not where OS pages are larger than usual).
    pub guards: bool,
}

impl Hardening {
    /// None of it: the default. What is noticed then costs next to nothing.
    pub const OFF: Self = Self {
        checks: false,
        canaries: false,
        random: false,
        quarantine: 0,
        zero: false,
        pinned: false,
        guards: false,
    };

    /// Checks, canaries, random choice, a quarantine of 256 KiB, zeroed blocks, and guard pages; not pinned.
    pub const ON: Self = Self {
        checks: true,
        canaries: true,
        random: true,
        quarantine: 256 << 10,
        zero: true,
        pinned: false,
        guards: true,
    };

    /// The checks alone.
    pub const CHECKS: Self = Self { checks: true, ..Self::OFF };

    /// Sets whether there are [canaries](field@Self::canaries).
    pub const fn canaries(mut self, wanted: bool) -> Self {
        self.canaries = wanted;
        self
    }

    /// Sets whether blocks are taken [at random](field@Self::random).
    pub const fn random(mut self, wanted: bool) -> Self {
        self.random = wanted;
        self
    }

    /// Sets the bytes of the [quarantine](field@Self::quarantine).
    pub const fn quarantine(mut self, bytes: u32) -> Self {
        self.quarantine = bytes;
        self
    }

    /// Sets whether freed blocks are [zeroed](field@Self::zero).
    pub const fn zero(mut self, wanted: bool) -> Self {
        self.zero = wanted;
        self
    }

    /// Sets whether pages are [pinned](field@Self::pinned) to their class.
    pub const fn pinned(mut self, wanted: bool) -> Self {
        self.pinned = wanted;
        self
    }

    /// Sets whether there are [guard pages](field@Self::guards).
    pub const fn guards(mut self, wanted: bool) -> Self {
        self.guards = wanted;
        self
    }
}

impl Default for Hardening {
    fn default() -> Self {
        Self::OFF
    }
}
