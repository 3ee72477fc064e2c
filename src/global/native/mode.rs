//! Whether the process runs in hardened mode, and with which parts; and whether blocks are sampled.
//!
//! Decided under the registry's lock before any thread has lists, and not changed after, but for sampling.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use super::sealed::Sealed;
use super::tuning::Tuning;
use crate::global::Hardening;
use crate::os;

const CANARIES: u32 = 1 << 0;
const CHECKS: u32 = 1 << 1;
const RANDOM: u32 = 1 << 2;
const ZERO: u32 = 1 << 3;
const GUARDS: u32 = 1 << 4;
const PINNED: u32 = 1 << 5;

/// Beside the parts: blocks are sampled.
const PROFILED: u32 = 1 << 31;

/// What was decided.
#[derive(Debug)]
struct Mode {
    /// The parts in force, as bits; 0 before the allocator is open, and if the mode is off.
    parts: AtomicU32,
    /// One allocation in so many is guarded; 0: none is.
    guarded: AtomicU32,
    /// Bytes of freed blocks that a thread keeps.
    quarantine: AtomicUsize,
    /// What nobody outside can know.
    secret: AtomicUsize,
}

static MODE: Sealed<Mode> = Sealed::new(Mode {
    parts: AtomicU32::new(0),
    guarded: AtomicU32::new(0),
    quarantine: AtomicUsize::new(0),
    secret: AtomicUsize::new(0),
});

/// Decides, for the process.
pub(super) fn open(tuning: &Tuning) {
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

/// Has blocks sampled, or no longer; whether that could be done. To be called by one thread at a time.
#[cfg(all(feature = "profiler", target_os = "linux"))]
pub(super) fn set_profiled(wanted: bool) -> bool {
    let set = || match wanted {
        true => MODE.parts.fetch_or(PROFILED, Relaxed),
        false => MODE.parts.fetch_and(!PROFILED, Relaxed),
    };
    MODE.change(set).is_some()
}

/// Has what was decided read-only.
pub(super) fn seal() {
    MODE.seal();
}

/// The parts in force, loaded once for a call and passed on.
#[derive(Clone, Copy)]
pub(super) struct Parts(u32);

#[inline(always)]
pub(super) fn parts() -> Parts {
    Parts(MODE.parts.load(Relaxed))
}

impl Parts {
    /// No part but the checks.
    pub(super) const CHECKS: u32 = CHECKS;
    /// Every part that a small block is concerned by.
    pub(super) const EVERY: u32 = CHECKS | CANARIES | RANDOM | ZERO;
    /// For [`known`](Self::known): which, only the process knows.
    pub(super) const UNKNOWN: u32 = 0;

    /// Whether there are any, or blocks are sampled.
    #[inline(always)]
    pub(super) fn are_unusual(self) -> bool {
        self.0 != 0
    }

    /// Whether there are some, and no blocks are sampled.
    #[inline(always)]
    pub(super) fn are_only_hardened(self) -> bool {
        // Without a part no bit is set, and sampling's is the sign.
        self.0.cast_signed() > 0
    }

    /// Those of the parts that a small block is concerned by.
    #[inline(always)]
    pub(super) fn of_small(self) -> u32 {
        self.0 & Self::EVERY
    }

    /// These parts, known where the program is compiled; else those in force.
    #[inline(always)]
    pub(super) fn known<const PARTS: u32>() -> Self {
        if PARTS == Self::UNKNOWN { parts() } else { Self(PARTS) }
    }

    #[inline(always)]
    fn has(self, part: u32) -> bool {
        self.0 & part != 0
    }

    /// Whether something is written around blocks.
    #[inline(always)]
    pub(super) fn has_canaries(self) -> bool {
        self.has(CANARIES)
    }

    /// Whether a block is taken at random.
    #[inline(always)]
    pub(super) fn are_random(self) -> bool {
        self.has(RANDOM)
    }

    /// Whether freed blocks are zeroed.
    #[inline(always)]
    pub(super) fn zero(self) -> bool {
        self.has(ZERO)
    }
}

/// Whether hardened mode is on.
#[inline(always)]
pub(super) fn is_hardened() -> bool {
    MODE.parts.load(Relaxed) & !PROFILED != 0
}

/// Whether blocks are sampled.
#[inline(always)]
pub(super) fn is_profiled() -> bool {
    cfg!(all(feature = "profiler", target_os = "linux")) && MODE.parts.load(Relaxed) & PROFILED != 0
}

/// Whether there are guard pages.
pub(super) fn has_guards() -> bool {
    parts().has(GUARDS)
}

/// Whether pages are kept for their class.
pub(super) fn pins() -> bool {
    parts().has(PINNED)
}

/// One allocation in so many is guarded; 0: none is.
#[inline(always)]
pub(super) fn guarded() -> u32 {
    MODE.guarded.load(Relaxed)
}

/// Bytes of freed blocks that a thread keeps.
#[inline(always)]
pub(super) fn quarantine() -> usize {
    MODE.quarantine.load(Relaxed)
}

/// What nobody outside can know.
#[inline(always)]
pub(super) fn secret() -> u64 {
    MODE.secret.load(Relaxed) as u64
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::os::alone;

    /// What canaries are made of is drawn for each process.
    #[test]
    fn a_hardened_process_has_a_secret() {
        assert_eq!(secret(), 0, "unit tests are not hardened");
        alone::passes("global::native::mode::tests::hardened");
    }

    /// Of the parts a small block is concerned by those that are written, checked or chosen by.
    #[test]
    fn parts_are_told_from_others() {
        const SMALL: u32 = CANARIES | CHECKS | RANDOM | ZERO;
        for bits in (0..64).flat_map(|bits| [bits, bits | PROFILED]) {
            let parts = Parts(bits);
            assert_eq!(parts.of_small(), bits & SMALL, "{bits:#x}");
            assert_eq!(parts.are_unusual(), bits > 0, "{bits:#x}");
            assert_eq!(parts.are_only_hardened(), bits > 0 && bits < PROFILED, "{bits:#x}");
            let has = [parts.has_canaries(), parts.are_random(), parts.zero()];
            let bit = |part: u32| bits / part % 2 == 1;
            assert_eq!(has, [CANARIES, RANDOM, ZERO].map(bit), "{bits:#x}");
        }
        assert_eq!(Parts::known::<CHECKS>().0, CHECKS);
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
