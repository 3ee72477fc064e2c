//! A tuning for tests that count steps or calls: few blocks already need several pages, lists and
//! mappings.

use pagewise::global::Tuning;

/// Small pages, short lists, small mappings, and free memory given back at once.
pub(crate) const FRUGAL: Tuning = Tuning::new()
    .pages(Tuning::new().pages.page_size(16 << 10).ffcrossover(2 << 10))
    .quick_blocks(8)
    .quick_bytes(4 << 10)
    .mapping_from(64 << 10)
    .purge_delay(0);
