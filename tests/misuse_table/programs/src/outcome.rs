//! The outcomes of a misuse, from the best to the worst.

use std::fmt::{self, Display, Formatter};

/// The outcome of a misuse. A later one is worse.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Outcome {
    /// The program ended with a message, in the misuse or in the free of its block.
    Stops,
    /// The misused access itself faulted: it met a guard page, or memory that was given back.
    Guard,
    /// The old contents were not to be seen.
    Cleared,
    /// The program ended with a message, later.
    Late,
    /// The program ended without a message, but on purpose: by `abort` or a trap instruction.
    Aborts,
    /// Nothing was noticed, and no harm was seen.
    Unnoticed,
    /// The allocator faulted.
    Faults,
    /// The allocator did not return.
    Hangs,
    /// The contents of another block were overwritten, silently.
    Overwritten,
    /// The old contents of a freed block were to be seen.
    Old,
    /// Memory in use was handed out once more, silently.
    Overlap,
}

impl Outcome {
    /// Their names in the table.
    const NAMES: [(Self, &str); 11] = [
        (Self::Stops, "stops"),
        (Self::Guard, "guard"),
        (Self::Cleared, "cleared"),
        (Self::Late, "late"),
        (Self::Aborts, "aborts"),
        (Self::Unnoticed, "–"),
        (Self::Faults, "SEGV"),
        (Self::Hangs, "hangs"),
        (Self::Overwritten, "overwritten"),
        (Self::Old, "old"),
        (Self::Overlap, "OVL"),
    ];

    /// Returns the one of this name.
    #[allow(dead_code, reason = "the programs have no use for it")]
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, word)| *word == name).map(|(outcome, _)| *outcome)
    }
}

impl Display for Outcome {
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        let (_, name) =
            Self::NAMES.iter().find(|(outcome, _)| outcome == self).ok_or(fmt::Error)?;
        out.pad(name)
    }
}
