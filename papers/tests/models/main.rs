//! Independent models: short, naive forms of the papers' strategies, made from the papers' text
//! alone, compared with the library's engines on random sequences. Every block must be at the same
//! address, and both must refuse the same requests. Where a paper leaves something open, the models
//! follow the reading that `docs/` documents for the engines.
//!
//! The lazy fits have theirs beside the tables that need it, `papers/src/lazy/plain.rs`.

mod head_first;
mod hybrid;
mod nielsen;
mod pages;
mod segments;

use std::alloc::Layout;
use std::ptr::NonNull;

use pagewise::Strategy;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A naive heap, whose addresses are plain numbers.
trait Model {
    /// Returns where a block for this many bytes may go: several places if the paper leaves a tie,
    /// none if the request is refused.
    fn places(&mut self, bytes: usize) -> Vec<usize>;

    /// Allocates the block at this place.
    fn take(&mut self, start: usize, bytes: usize);

    /// Frees the block that starts here.
    fn free(&mut self, start: usize, bytes: usize);

    /// Returns the alignment of address 0 in bytes, which shows where the first request was placed.
    fn align(&self) -> usize {
        1
    }
}

/// The requests for both.
#[derive(Clone, Copy)]
struct Load {
    requests: usize,
    /// Number of requests after which growing and shrinking alternate.
    wave: usize,
    /// The size of a request, bytes.
    size: fn(&mut ChaCha8Rng) -> usize,
}

/// Makes an engine and a model serve the same requests, and compares every address. `unit` is the
/// bytes of the model's unit of addresses.
fn agree(
    name: &str,
    engine: &mut dyn Strategy,
    model: &mut dyn Model,
    load: Load,
    unit: usize,
    seed: u64,
) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut live: Vec<(NonNull<u8>, Layout, usize)> = Vec::new();
    let mut origin = None;
    let mut refused = 0;
    for request in 0..load.requests {
        let share = if (request / load.wave).is_multiple_of(2) { 0.65 } else { 0.35 };
        if live.is_empty() || random.random_bool(share) {
            let size = (load.size)(&mut random);
            let layout = Layout::from_size_align(size, 1).expect("a layout");
            let served = engine.allocate(layout).ok().map(NonNull::cast::<u8>);
            let places = model.places(size);
            let Some(block) = served.filter(|_| !places.is_empty()) else {
                refused += 1;
                let both = served.is_none() && places.is_empty();
                assert!(both, "{name}, seed {seed}, request {request}: {served:?} for {places:?}");
                continue;
            };
            let address = block.addr().get();
            let origin = *origin.get_or_insert_with(|| {
                let mut origins = places.iter().map(|place| address.wrapping_sub(place * unit));
                let aligned = origins.find(|origin| origin.is_multiple_of(model.align()));
                aligned.expect("the first block lies at one of its places")
            });
            let at = address.wrapping_sub(origin) / unit;
            assert!(
                places.contains(&at) && address == origin.wrapping_add(at * unit),
                "{name}, seed {seed}, request {request} of {size} bytes: at {at} for {places:?}"
            );
            model.take(at, size);
            live.push((block, layout, at));
        } else {
            let (block, layout, at) = live.swap_remove(random.random_range(0..live.len()));
            // SAFETY: the block is live, has this layout, and is not used afterwards.
            unsafe { engine.deallocate(block, layout) };
            model.free(at, layout.size());
        }
    }
    engine.audit().unwrap_or_else(|fault| panic!("{name}, seed {seed}: {fault}"));
    assert!(refused < load.requests / 2, "{name}: most requests are served");
}
