//! In a full heap, a block was freed, and the same request failed at once. An aligned request was
//! served only by a free block that holds it wherever it starts, or by the first few that were
//! looked at: best, worst and deferred fits, the hybrids, FIRST-FIT, and whatever is built on them.

use std::alloc::Layout;
use std::ptr::NonNull;

use pagewise::catalogue;
use pagewise::pages::Config;

use crate::leaked;

const REGION: usize = if cfg!(miri) { 1 << 15 } else { 1 << 18 };

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % end
    }

    /// Returns a small or a large layout, of any alignment up to that of an OS page.
    fn layout(&mut self) -> Layout {
        let largest = [60, 600, 6000][self.below(3)];
        let (size, align) = (1 + self.below(largest), 1 << self.below(13));
        Layout::from_size_align(size, align).expect("a valid layout")
    }
}

#[test]
fn serves_the_same_request() {
    // STACK, QUEUE and RANDOM leave a page with its class, and Kingsley leaves a block.
    for entry in catalogue::all().filter(|entry| entry.reuses) {
        for seed in 0..6 {
            let config = if seed % 2 == 1 { Config::with_page_size(4096) } else { entry.config };
            let heap = entry.build_over(config, leaked(REGION), &());
            let (mut heap, mut random) = (heap.expect("a configuration"), Random(seed));
            let mut blocks: Vec<(NonNull<u8>, Layout)> = Vec::new();
            for _ in 0..2 {
                // Full, but for gaps.
                let mut refused = 0;
                while refused < 40 {
                    let layout = random.layout();
                    match heap.allocate(layout) {
                        Ok(block) => blocks.push((block.cast(), layout)),
                        Err(_) => refused += 1,
                    }
                }
                for _ in 0..blocks.len() / 4 {
                    let (block, layout) = blocks.swap_remove(random.below(blocks.len()));
                    // SAFETY: the block is in use with this layout, and freed once.
                    unsafe { heap.deallocate(block, layout) };
                }
            }
            while heap.allocate(random.layout()).is_ok() {}
            for _ in 0..if cfg!(miri) { 20 } else { 300 } {
                let (block, layout) = blocks.swap_remove(random.below(blocks.len()));
                // SAFETY: as above.
                unsafe { heap.deallocate(block, layout) };
                let again = heap.allocate(layout);
                let again = again.unwrap_or_else(|_| panic!("{}, {seed}: {layout:?}", entry.name));
                blocks.push((again.cast(), layout));
            }
            assert_eq!(heap.audit(), Ok(()), "{}", entry.name);
        }
    }
}
