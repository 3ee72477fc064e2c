//! A tuning that makes few blocks need several pages, lists and mappings: for tests that count steps or calls.

use pagewise::global::Tuning;

/// Small pages, short lists, mappings soon, and free memory given back at once.
pub(crate) const FRUGAL: Tuning = Tuning::new()
    .pages(Tuning::new().pages.page_size(16 << 10).ffcrossover(2 << 10))
    .quick_blocks(8)
    .quick_bytes(4 << 10)
    .mapping_from(64 << 10)
    .purge_delay(0);
