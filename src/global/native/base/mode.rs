//! Holds whether the process runs in hardened mode, and with which parts; and whether blocks are
//! sampled.
//!
//! Decided under the registry's lock before any thread has lists. Only sampling changes after that.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use super::sealed::Sealed;
use crate::global::Hardening;
use crate::global::tuning::Tuning;
use crate::os;

/// Canaries are written around blocks.
const CANARIES: u32 = 1 << 0;
/// Blocks are taken from lists at random.
const RANDOM: u32 = 1 << 1;
/// Freed blocks are zeroed.
const ZERO: u32 = 1 << 2;
/// Blocks are checked: hardened mode is on.
const CHECKS: u32 = 1 << 3;
/// There are guard pages.
const GUARDS: u32 = 1 << 4;
/// Pages keep their size class.
const PINNED: u32 = 1 << 5;

/// Besides the parts: blocks are sampled.
const PROFILED: u32 = 1 << 31;

/// The settings that were decided.
#[derive(Debug)]
struct Mode {
    /// The parts in force, as bits; 0 before the allocator is open, and if hardened mode is off.
    parts: AtomicU32,
    /// Guards one allocation in this many; 0: none.
    guarded: AtomicU32,
    /// Bytes of freed blocks that a thread keeps.
    quarantine: AtomicUsize,
    /// A random number that nothing outside the process can know; 0 if the mode is off.
    secret: AtomicUsize,
}

/// The settings of this process.
static MODE: Sealed<Mode> = Sealed::new(Mode {
    parts: AtomicU32::new(0),
    guarded: AtomicU32::new(0),
    quarantine: AtomicUsize::new(0),
    secret: AtomicUsize::new(0),
});

/// Decides the settings for the process.
pub(in crate::global::native) fn open(tuning: &Tuning) {
    let Hardening { checks, canaries, random, quarantine, zero, pinned, guards } = tuning.hardening;
    if cfg!(feature = "guarded") {
        MODE.guarded.store(tuning.guarded.min(1 << 30), Relaxed);
    }
    if !checks {
        return;
    }
    MODE.secret.store(os::random() as usize, Relaxed);
    MODE.quarantine.store(quarantine as usize, Relaxed);
    let parts =
        [(canaries, CANARIES), (random, RANDOM), (zero, ZERO), (guards, GUARDS), (pinned, PINNED)];
    let wanted = parts.into_iter().filter(|(wanted, _)| *wanted);
    MODE.parts.store(wanted.fold(CHECKS, |all, (_, part)| all | part), Relaxed);
}

/// Switches sampling on or off; returns whether that was possible. Call from one thread at a time.
#[cfg(all(feature = "profiler", target_os = "linux"))]
pub(in crate::global::native) fn set_profiled(wanted: bool) -> bool {
    let set = || match wanted {
        true => MODE.parts.fetch_or(PROFILED, Relaxed),
        false => MODE.parts.fetch_and(!PROFILED, Relaxed),
    };
    MODE.change(set).is_some()
}

/// Makes the settings read-only.
pub(in crate::global::native) fn seal() {
    MODE.seal();
}

/// The parts of hardened mode that are in force, and whether blocks are sampled. A request loads
/// them once, and passes them on.
#[derive(Clone, Copy)]
pub(in crate::global::native) struct Parts(u32);

/// Returns the parts in force.
#[inline(always)]
pub(in crate::global::native) fn parts() -> Parts {
    Parts(MODE.parts.load(Relaxed))
}

impl Parts {
    /// How many sets there are of the parts that affect small blocks, besides the checks.
    pub(in crate::global::native) const SETS: usize = 1 << 3;

    /// Returns whether there are any parts, or blocks are sampled.
    #[inline(always)]
    pub(in crate::global::native) fn are_unusual(self) -> bool {
        self.0 != 0
    }

    /// Returns whether there are any parts, and blocks are not sampled.
    #[inline(always)]
    pub(in crate::global::native) fn are_only_hardened(self) -> bool {
        // `PROFILED` is the sign bit; without it, a positive number has some part's bit.
        self.0.cast_signed() > 0
    }

    /// Returns which set of the parts that affect small blocks is in force: a number below
    /// [`SETS`](Self::SETS).
    #[inline(always)]
    pub(in crate::global::native) fn set(self) -> usize {
        self.0 as usize % Self::SETS
    }

    /// Returns the checks together with the set of parts that has this [number](Self::set).
    #[inline(always)]
    pub(in crate::global::native) const fn of_set(set: usize) -> Self {
        Self(CHECKS | set as u32)
    }

    /// Returns whether a part is in force, given its bit.
    #[inline(always)]
    fn has(self, part: u32) -> bool {
        self.0 & part != 0
    }

    /// Returns whether canaries are written around blocks.
    #[inline(always)]
    pub(in crate::global::native) fn has_canaries(self) -> bool {
        self.has(CANARIES)
    }

    /// Returns whether blocks are taken from lists at random.
    #[inline(always)]
    pub(in crate::global::native) fn are_random(self) -> bool {
        self.has(RANDOM)
    }

    /// Returns whether freed blocks are zeroed.
    #[inline(always)]
    pub(in crate::global::native) fn zero(self) -> bool {
        self.has(ZERO)
    }
}

/// Returns whether hardened mode is on.
#[inline(always)]
pub(in crate::global::native) fn is_hardened() -> bool {
    MODE.parts.load(Relaxed) & !PROFILED != 0
}

/// Returns whether blocks are sampled.
#[inline(always)]
pub(in crate::global::native) fn is_profiled() -> bool {
    cfg!(all(feature = "profiler", target_os = "linux")) && MODE.parts.load(Relaxed) & PROFILED != 0
}

/// Returns whether there are guard pages.
pub(in crate::global::native) fn has_guards() -> bool {
    parts().has(GUARDS)
}

/// Returns whether pages keep their size class.
pub(in crate::global::native) fn pins() -> bool {
    parts().has(PINNED)
}

/// Returns *n* if one allocation in *n* is guarded; 0 if none is.
#[inline(always)]
pub(in crate::global::native) fn guarded() -> u32 {
    MODE.guarded.load(Relaxed)
}

/// Returns the bytes of freed blocks that a thread keeps.
#[inline(always)]
pub(in crate::global::native) fn quarantine() -> usize {
    MODE.quarantine.load(Relaxed)
}

/// Returns a random number that nothing outside the process can know.
#[inline(always)]
pub(in crate::global::native) fn secret() -> u64 {
    MODE.secret.load(Relaxed) as u64
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::os::alone;

    /// Each process draws its own secret, from which canaries are made.
    #[test]
    fn a_hardened_process_has_a_secret() {
        assert_eq!(secret(), 0, "unit tests are not hardened");
        alone::passes("global::native::base::mode::tests::hardened");
    }

    /// The parts that affect small blocks are canaries, randomness and zeroing, besides the checks.
    #[test]
    fn parts_are_told_from_others() {
        for bits in (0..64).flat_map(|bits| [bits, bits | PROFILED]) {
            let parts = Parts(bits);
            assert_eq!(parts.are_unusual(), bits > 0, "{bits:#x}");
            assert_eq!(parts.are_only_hardened(), bits > 0 && bits < PROFILED, "{bits:#x}");
            let has = [parts.has_canaries(), parts.are_random(), parts.zero()];
            let bit = |part: u32| bits / part % 2 == 1;
            assert_eq!(has, [CANARIES, RANDOM, ZERO].map(bit), "{bits:#x}");
            let set = Parts::of_set(parts.set());
            assert_eq!([set.has_canaries(), set.are_random(), set.zero()], has, "{bits:#x}");
            assert!(set.are_only_hardened());
        }
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn hardened() {
        let secrets = [(); 2].map(|()| {
            open(&Tuning::new().hardening(Hardening::CHECKS));
            secret()
        });
        assert!(secrets[0] != secrets[1] && !secrets.contains(&0), "{secrets:?}");
    }
}
