//! Lazy fits (Chung & Moon): every variant over every fit, with frees at once and collected.

use pagewise::catalogue::{
    CollectedBestFit, CollectedFirstFit, CollectedWorstFit, LazyBestFit, LazyFirstFit, LazyWorstFit,
};
use pagewise::fit::{
    Apart, BoundaryTagHeap, Bounded, Deferred, Joining, NoArea, Releasing, Segregated, Sparing,
};

strategies! {
    InBand;
    lf: true, |config, source| LazyFirstFit::<Apart, _>::new(config.page_size, source, ());
    lfb: true, |config, source| LazyFirstFit::<Joining, _>::new(config.page_size, source, ());
    lfl: true, |config, source| LazyFirstFit::<Releasing, _>::new(config.page_size, source, ());
    lw: true, |config, source| LazyWorstFit::<Apart, _>::new(config.page_size, source, ());
    lwb: true, |config, source| LazyWorstFit::<Joining, _>::new(config.page_size, source, ());
    lwl: true, |config, source| LazyWorstFit::<Releasing, _>::new(config.page_size, source, ());
    lb: true, |config, source| LazyBestFit::<Apart, _>::new(config.page_size, source, ());
    lbb: true, |config, source| LazyBestFit::<Joining, _>::new(config.page_size, source, ());
    lbl: true, |config, source| LazyBestFit::<Releasing, _>::new(config.page_size, source, ());
    lfl_bounded: true, |config, source| {
        LazyFirstFit::<Bounded<Releasing, 256>, _>::new(config.page_size, source, ())
    };
    lbb_bounded: true, |config, source| {
        LazyBestFit::<Bounded<Joining, 64>, _>::new(config.page_size, source, ())
    };
    lfl_sparing: true, |config, source| {
        LazyFirstFit::<Sparing<Releasing>, _>::new(config.page_size, source, ())
    };
    // With as little growth as will do, every allocation meets the end of the heap.
    lfb_growing_by_cells: true, |config, source| {
        LazyFirstFit::<Joining, _>::new(config.unit.max(16), source, ())
    };
    lfl_growing_by_cells: true, |config, source| {
        LazyFirstFit::<Releasing, _>::new(config.unit.max(16), source, ())
    };
    f_collected: true, |config, source| {
        CollectedFirstFit::<NoArea, _>::new(config.unit.max(16), source, ())
    };
    lf_collected: true, |config, source| {
        CollectedFirstFit::<Apart, _>::new(config.page_size, source, ())
    };
    lw_collected: true, |config, source| {
        CollectedWorstFit::<Apart, _>::new(config.page_size, source, ())
    };
    lbb_collected: true, |config, source| {
        CollectedBestFit::<Joining, _>::new(config.page_size, source, ())
    };
    lfb_bounded_deferred: true, |config, source| {
        type Area = Sparing<Bounded<Joining, 256>>;
        BoundaryTagHeap::<Segregated, Deferred, Area, _>::new(config.page_size, source, ())
    };
    lfb_deferred: true, |config, source| {
        BoundaryTagHeap::<Segregated, Deferred, Joining, _>::new(config.page_size, source, ())
    };
}
