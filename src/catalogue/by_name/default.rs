//! The default strategy, made of what the papers do best.

use super::Entry;
use crate::catalogue::PageHeap;

pub(super) const ENTRIES: &[Entry] = &[entry!(
    "PAGEWISE",
    "Brent §2.10, §4; Hasan & Chang §3.1, §3.9",
    |config, source, meter| PageHeap::new(config, source, meter),
    "lazy LEAST-FREE for small blocks; pages and larger blocks from one good fit"
)
.compared()];
