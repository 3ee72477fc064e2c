//! The tuning as it holds on Linux: what the environment overrides of it, and what the kernel is told
//! of huge pages.

use super::os;
use super::tuning::{HugePages, Tuning};

impl Tuning {
    /// As the environment overrides it.
    pub(super) fn with_environment(mut self) -> Self {
        if let Some(delay) = os::variable(c"PAGEWISE_PURGE_DELAY") {
            self.purge_delay = u32::try_from(delay).unwrap_or(u32::MAX);
        }
        if let Some(wanted) = os::variable(c"PAGEWISE_BACKGROUND") {
            self.background = wanted > 0;
        }
        match os::variable(c"PAGEWISE_HUGE_PAGES") {
            Some(0) => self.huge_pages = HugePages::Never,
            Some(1) => self.huge_pages = HugePages::Always,
            Some(mebibytes) => {
                let bytes =
                    usize::try_from(mebibytes).unwrap_or(usize::MAX).saturating_mul(1 << 20);
                self.huge_pages = HugePages::Beyond(bytes);
            }
            None => {}
        }
        self
    }
}

impl HugePages {
    /// What the kernel is told of a heap or a mapping before it is touched: nothing, or whether huge
    /// pages are wanted.
    pub(super) fn advice(self) -> Option<bool> {
        match self {
            Self::Default | Self::Beyond(_) => None,
            Self::Never => Some(false),
            Self::Always => Some(true),
        }
    }

    /// Whether it is told more once memory was written.
    pub(super) fn follows(self) -> bool {
        matches!(self, Self::Beyond(_))
    }
}
