//! The default strategy, under every configuration and as arenas have it.

use pagewise::catalogue::PageHeap;

strategies! {
    InBand;
    page_heap: true, |config, source| PageHeap::new(config, source, ());
    page_heap_of_an_arena: true, |_config, source| PageHeap::new(Config::arena(), source, ());
}
