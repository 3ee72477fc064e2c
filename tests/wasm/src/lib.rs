//! A program of WebAssembly whose global allocator is an arena over static memory: collections grow
//! and shrink, and what they hold in the end is the answer.

#[path = "../../random/mod.rs"]
mod random;

use std::alloc::Layout;
use std::collections::BTreeMap;

use pagewise::PageHeap;
use pagewise::arena::Arena;
use pagewise::arena::lock::Unshared;
use pagewise::pages::Config;
use pagewise::source::Region;
use random::Random;

const LEN: usize = 4 << 20;

static mut MEMORY: [u64; LEN / 8] = [0; LEN / 8];

/// On this machine itself, the program's allocator is another, and the arena has nothing to do.
#[cfg_attr(target_arch = "wasm32", global_allocator)]
// SAFETY: nobody else names the memory, and there is one thread.
static ARENA: Arena<PageHeap<Region>, Unshared> = unsafe {
    let region = Region::new((&raw mut MEMORY).cast(), LEN);
    Arena::with_lock(PageHeap::new(Config::arena(), region, ()), Unshared::new())
};

/// Fills a map with strings and vectors and takes half of them out again; what is left, in a number.
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

/// The number of the step that went wrong, 0 for none: what was allocated went through the arena, all
/// is freed, every invariant holds, memory comes to an end and is there again.
#[unsafe(no_mangle)]
pub extern "C" fn check() -> u32 {
    if ARENA.usage().peak_requested < 100_000 {
        return 1;
    }
    if ARENA.usage().blocks != 0 {
        return 2;
    }
    let layout = Layout::from_size_align(50_000, 16).expect("a valid layout");
    for _ in 0..2 {
        let mut blocks = [None; LEN / 50_000];
        let mut count = 0;
        while let Ok(block) = ARENA.allocate(layout) {
            blocks[count] = Some(block.cast());
            count += 1;
        }
        if count < blocks.len() * 9 / 10 {
            return 3;
        }
        // SAFETY: each is in use, and freed once.
        blocks.iter().flatten().for_each(|&block| unsafe { ARENA.deallocate(block, layout) });
    }
    if ARENA.audit().is_ok() { 0 } else { 4 }
}
