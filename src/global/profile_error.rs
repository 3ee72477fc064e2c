//! The reasons why the profiler refuses a call: [`ProfileError`].

use core::fmt;

/// The reasons why the profiler refuses a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProfileError {
    /// The profiler is on already.
    AlreadyOn,
    /// The profiler has never been started.
    NeverStarted,
    /// The number of bytes per sample is not from 1 to 1 GiB.
    RateOutOfRange,
    /// There is not enough memory for the profile.
    Memory,
    /// The process is forking, or a signal handler interrupted the profiler.
    Busy,
    /// This system has no profiler.
    Unsupported,
}

impl ProfileError {
    /// Returns the reason as a text.
    pub(in crate::global) const fn text(self) -> &'static str {
        match self {
            Self::AlreadyOn => "the profiler is already on",
            Self::NeverStarted => "the profiler was never started",
            Self::RateOutOfRange => "the bytes per sample must be from 1 to 1073741824",
            Self::Memory => "not enough memory for the profile",
            Self::Busy => "the profiler is busy: the process forks, or a signal interrupted it",
            Self::Unsupported => "this system has no profiler",
        }
    }
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for ProfileError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each reason has its own text.
    #[test]
    fn reasons_are_told_apart() {
        use ProfileError::{AlreadyOn, Busy, Memory, NeverStarted, RateOutOfRange, Unsupported};
        let all = [AlreadyOn, NeverStarted, RateOutOfRange, Memory, Busy, Unsupported];
        let texts: std::collections::BTreeSet<_> = all.map(ProfileError::text).into();
        assert!(texts.len() == all.len() && texts.iter().all(|text| text.contains(' ')));
    }
}
