//! Fits over a heap with boundary tags, and binary buddies.

use pagewise::catalogue::{BestFit, Buddy, FirstFitList, NextFit, WorstFit};

strategies! {
    Apart;
    buddy: true, |config, source| Buddy::new(config.unit.max(16), 4096, source, ());
}

strategies! {
    InBand;
    best_fit: true, |config, source| BestFit::new(config.page_size, source, ());
    first_fit_list: true, |config, source| FirstFitList::new(config.page_size, source, ());
    next_fit: true, |config, source| NextFit::new(config.page_size, source, ());
    worst_fit: true, |config, source| WorstFit::new(config.page_size, source, ());
}
