//! A WebAssembly program whose global allocator is `Pagewise` or, with the feature `arena`, an
//! arena over static memory: collections grow and shrink, and the result is computed from their
//! final contents.

#[path = "../../random/mod.rs"]
mod random;

#[cfg_attr(feature = "arena", path = "arena.rs")]
#[cfg_attr(not(feature = "arena"), path = "whole.rs")]
mod allocator;

use std::collections::BTreeMap;

use random::Random;

/// Fills a map with strings and vectors and removes half of them; returns a number computed from
/// the rest.
#[unsafe(no_mangle)]
pub extern "C" fn run(seed: u32) -> u32 {
    let mut random = Random(u64::from(seed) + 1);
    let mut map: BTreeMap<u32, (String, Vec<u32>)> = BTreeMap::new();
    for step in 0..3_000 {
        let key = random.below(500) as u32;
        if random.below(2) == 0 {
            map.remove(&key);
            continue;
        }
        let (name, numbers) = map.entry(key).or_default();
        name.push_str(&step.to_string());
        numbers.extend(0..random.below(200) as u32);
        numbers.truncate(400);
    }
    let sum = |bytes: &[u8]| bytes.iter().fold(0u32, |sum, &b| sum.rotate_left(3) ^ u32::from(b));
    map.iter().fold(map.len() as u32, |all, (key, (name, numbers))| {
        numbers.iter().fold(all.rotate_left(5) ^ key ^ sum(name.as_bytes()), |all, n| {
            all.wrapping_mul(31) ^ n
        })
    })
}

/// Returns the number of the failed step, 0 for none.
#[unsafe(no_mangle)]
pub extern "C" fn check() -> u32 {
    allocator::check()
}
