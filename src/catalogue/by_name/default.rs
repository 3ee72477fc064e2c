//! The default strategy, made of what the papers do best.

use super::Entry;
use crate::catalogue::PageHeap;
use crate::source::Reserved;

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "PAGEWISE",
    source: "Brent §2.10, §4; Hasan & Chang §3.1, §3.9",
    about: "lazy LEAST-FREE for small blocks; pages and larger blocks from one good fit",
    linear: false,
    in_band: true,
    compared: true,
    plain: |config, capacity| Box::new(PageHeap::new(config, Reserved::new(capacity), ())),
    metered: |config, capacity, meter| {
        Box::new(PageHeap::new(config, Reserved::new(capacity), meter))
    },
}];
