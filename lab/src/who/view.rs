//! The figures by which sites are ranked: [`View`].

use super::count::Figures;

/// A figure that sites are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum View {
    /// Bytes live at the moment that --at chooses
    Live,
    /// Bytes allocated in all
    Allocated,
    /// Allocations
    Count,
    /// Blocks freed before their thread allocates again
    Temporary,
    /// Bytes live at the end
    Leaked,
    /// Blocks freed within 1,000 events
    Short,
    /// Blocks alive for a tenth of the trace or more
    Long,
}

impl View {
    /// The figures shown by default.
    pub(crate) const USUAL: [Self; 5] =
        [Self::Live, Self::Leaked, Self::Allocated, Self::Count, Self::Temporary];

    /// Returns the figure.
    pub(crate) fn of(self, figures: &Figures) -> u64 {
        match self {
            Self::Live => figures.live_bytes,
            Self::Allocated => figures.allocated_bytes,
            Self::Count => figures.allocations,
            Self::Temporary => figures.temporary,
            Self::Leaked => figures.leaked_bytes,
            Self::Short => figures.short_lived,
            Self::Long => figures.long_lived,
        }
    }

    /// Returns the number of blocks counted in the figure.
    pub(crate) fn blocks(self, figures: &Figures) -> u64 {
        match self {
            Self::Live => figures.live_blocks,
            Self::Leaked => figures.leaked_blocks,
            Self::Allocated | Self::Count => figures.allocations,
            Self::Temporary => figures.temporary,
            Self::Short => figures.short_lived,
            Self::Long => figures.long_lived,
        }
    }

    /// Returns whether the figure is in bytes.
    pub(crate) fn is_bytes(self) -> bool {
        matches!(self, Self::Live | Self::Allocated | Self::Leaked)
    }
}
