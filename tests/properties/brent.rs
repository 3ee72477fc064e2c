//! Brent's strategies (1984).

use pagewise::catalogue::{
    FirstFit, LeastFree, MostFree, Mru, NoFree, Queue, Quick, Random, RandomB, Stack,
};
use pagewise::pages::Paged;
use pagewise::pages::placement::{AnyPage, CurrentPage, InBand, LeftHeaders, Most, MostRecent};

/// A strategy whose free blocks are linked through the blocks themselves.
type Linked<O, S> = Paged<CurrentPage<LeftHeaders<O>, InBand>, S>;

strategies! {
    Apart;
    stack: true, |config, source| Stack::new(config, source, ());
    queue: true, |config, source| Queue::new(config, source, ());
    random: true, |config, source| Random::new(config, source, ());
    no_free: false, |config, source| NoFree::new(config, source, ());
    quick: false, |config, source| Quick::new(config, source, ());
    first_fit: true, |config, source| FirstFit::new(config.unit, 64 * config.unit, source, ());
    first_fit_wide: true, |config, source| {
        FirstFit::with_segments(config.unit, 256 * config.unit, 1 << 14, source, ())
    };
    random_b: true, |config, source| RandomB::new(config, source, ());
    most_free: true, |config, source| MostFree::new(config, source, ());
    least_free: true, |config, source| LeastFree::new(config, source, ());
    mru: true, |config, source| Mru::new(config, source, ());
    most_free_linked: true, |config, source| Linked::<Most, _>::new(config, source, ());
    mru_linked: true, |config, source| Linked::<MostRecent, _>::new(config, source, ());
    random_b_linked: true, |config, source| {
        Paged::<CurrentPage<AnyPage, InBand>, _>::new(config, source, ())
    };
}
