//! The outcomes of a misuse, from the best to the worst.

use std::fmt::{self, Display, Formatter};

/// The outcome of a misuse, from best to worst.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Outcome {
    /// The program stopped with a message, during the misuse or the free of its block.
    Stops,
    /// The misused access itself faulted: it hit a guard page, or memory that was given back.
    Guard,
    /// The old contents could not be read.
    Cleared,
    /// The program stopped with a message, later.
    Late,
    /// The program stopped on purpose but without a message: by `abort` or a trap instruction.
    Aborts,
    /// Nothing was detected, and no damage was seen.
    Unnoticed,
    /// The allocator faulted.
    Faults,
    /// The allocator did not return.
    Hangs,
    /// The contents of another block were silently overwritten.
    Overwritten,
    /// The old contents of a freed block could be read.
    Old,
    /// Memory in use was silently handed out again.
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

    /// Returns the outcome of this name.
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
