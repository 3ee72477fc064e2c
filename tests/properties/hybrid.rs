//! Hasan & Chang's tunable hybrid under many settings, and Kingsley's allocator.

use pagewise::catalogue::{HcGen, HcMem, HcPerf, Kingsley};
use pagewise::hybrid::{Config as Tuning, Hybrid};

/// Everything off: segregated storage, no quick lists.
const NOTHING: Tuning = Tuning {
    ql_high: 0,
    coalesce_in_free: false,
    split: false,
    preallocate: 0,
    ..Tuning::performance()
};

/// Everything on, at every opportunity.
const EAGER: Tuning = Tuning {
    ql_high: 2032,
    threshold: 100,
    coalesce_in_free: true,
    few_blocks: 1000,
    much_held: 0,
    preallocate: 1000,
    growth: 16,
    ..Tuning::generic()
};

strategies! {
    InBand;
    hc_gen: true, |_config, source| HcGen::constant(source, ());
    hc_mem: true, |_config, source| HcMem::constant(source, ());
    hc_perf: true, |_config, source| HcPerf::constant(source, ());
    hc_nothing: true, |_config, source| Hybrid::new(NOTHING, source, ());
    hc_eager: true, |_config, source| Hybrid::new(EAGER, source, ());
    hc_by_page: true, |config, source| {
        let tuning = Tuning {
            ql_high: config.ffcrossover.min(2032) / 16 * 16,
            growth: config.page_size,
            coalesce: config.freetol == 1,
            split: config.page_size > 1024,
            ..Tuning::memory()
        };
        Hybrid::new(tuning, source, ())
    };
    kingsley: true, |config, source| Kingsley::new(config.page_size, source, ());
}
