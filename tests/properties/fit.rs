//! Fits over a heap with boundary tags, and binary buddies.

use pagewise::catalogue::{
    BestFit, Buddy, DeferredBestFit, FirstFitFifo, FirstFitLifo, FirstFitList, NextFit,
    SegregatedFit, WorstFit,
};
use pagewise::fit::{BoundaryTagHeap, Deferred, Fifo, Front, Immediate, Next, NoArea, Segregated};

strategies! {
    Apart;
    buddy: true, |config, source| Buddy::new(config.unit.max(16), 4096, source, ());
}

strategies! {
    InBand;
    best_fit: true, |config, source| BestFit::new(config.page_size, source, ());
    first_fit_list: true, |config, source| FirstFitList::new(config.page_size, source, ());
    first_fit_lifo: true, |config, source| FirstFitLifo::new(config.page_size, source, ());
    first_fit_fifo: true, |config, source| FirstFitFifo::new(config.page_size, source, ());
    next_fit: true, |config, source| NextFit::new(config.page_size, source, ());
    segregated_fit: true, |config, source| SegregatedFit::new(config.page_size, source, ());
    worst_fit: true, |config, source| WorstFit::new(config.page_size, source, ());
    segregated_lifo: true, |config, source| {
        BoundaryTagHeap::<Segregated<Front>, Immediate, NoArea, _>::new(config.page_size, source, ())
    };
    deferred_best_fit: true, |config, source| DeferredBestFit::new(config.page_size, source, ());
    deferred_next_fit: true, |config, source| {
        BoundaryTagHeap::<Next, Deferred, NoArea, _>::new(config.page_size, source, ())
    };
    deferred_first_fit_fifo: true, |config, source| {
        BoundaryTagHeap::<Fifo, Deferred, NoArea, _>::new(config.unit.max(16), source, ())
    };
}
