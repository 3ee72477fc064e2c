//! The parts of hardened mode: [`Hardening`].

/// Selects the parts of hardened mode. At run time an environment variable selects them:
/// `PAGEWISE_HARDENED=1` turns on all of [`Hardening::ON`], and a list of names turns on these
/// parts, as in `PAGEWISE_HARDENED=canaries,random`.
///
/// All parts build on the *checks*. For each 16 bytes of a heap there is a byte, stored apart from
/// the blocks, that says whether a block in use starts there. The allocator reads it when a block
/// is freed, resized, measured or handed out. A double free, a pointer that is not the start of a
/// block, or a free with a wrong size stops the process at once with a one-line message.
///
/// ```
/// use pagewise::Pagewise;
/// use pagewise::global::{Hardening, Tuning};
///
/// #[global_allocator]
/// static ALLOCATOR: Pagewise =
///     Pagewise::with(Tuning::new().hardening(Hardening::ON.quarantine(0)));
/// # fn main() { drop(vec![1, 2, 3]); }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[must_use]
pub struct Hardening {
    /// Whether blocks are checked at all. The other parts have no effect without this one.
    pub checks: bool,
    /// Writes at least one byte behind each block when it is handed out, and compares it when the
    /// block is freed: a write beyond the block's end stops the process at that point. Blocks above
    /// FFCROSSOVER also have canaries in front. Costs a byte for each block, so a request for
    /// exactly the size of a class takes the next class.
    pub canaries: bool,
    /// Hands out one of the last eight blocks on the thread's list of the class at random: the one
    /// freed last with a probability of 15/64, and each one before it with 2/64 less. When a list
    /// takes blocks from another place of the heap, it begins at a random one of them.
    pub random: bool,
    /// Bytes of freed blocks that each thread holds back in a quarantine, at most 1,024 blocks; the
    /// oldest are used again first. Of larger blocks, up to four times this number, only the last
    /// one is held back, if it is above FFCROSSOVER. 0 disables the quarantine.
    pub quarantine: u32,
    /// Zeroes freed blocks, and checks that they are still zero: small ones when they are next
    /// handed out, those above FFCROSSOVER when they leave the quarantine. A write in between stops
    /// the process, and a read of a freed block finds no data.
    pub zero: bool,
    /// Never reuses a page for another size class, so a dangling pointer can only refer to another
    /// block of its own size. Costs the memory of classes that the program has stopped using.
    pub pinned: bool,
    /// Puts guard pages around the allocator's own data and on both sides of each block that is a
    /// mapping of its own; with this part those are all blocks from 1 MiB on. Data fixed at startup
    /// becomes read-only: the mode, the size tables, and the heaps' addresses (unless OS pages are
    /// larger than usual).
    pub guards: bool,
}

impl Hardening {
    /// All parts off: the default. The misuse that is detected in this mode costs next to nothing
    /// to detect.
    pub const OFF: Self = Self {
        checks: false,
        canaries: false,
        random: false,
        quarantine: 0,
        zero: false,
        pinned: false,
        guards: false,
    };

    /// Checks, canaries, random choice, a quarantine of 256 KiB, zeroing, and guard pages; pages
    /// are not pinned.
    pub const ON: Self = Self {
        checks: true,
        canaries: true,
        random: true,
        quarantine: 256 << 10,
        zero: true,
        pinned: false,
        guards: true,
    };

    /// Only the checks.
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
