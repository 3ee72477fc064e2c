//! Statistics of the heap's pages.

use crate::engine::Heap;
use crate::meter::Meter;
use crate::pages::below::tagged::Tagged;
use crate::pages::engine::PageEngine;
use crate::pages::headers::Headers;
use crate::pages::page_heap::windowed::Windowed;
use crate::source::Source;

impl<S: Source, M: Meter> Heap<PageEngine<Windowed, Tagged>, S, M> {
    /// Returns the bytes of all pages, including those without blocks in use.
    pub(crate) fn page_bytes(&self) -> usize {
        self.engine.pages.count() * self.engine.config.page_size
    }

    /// Returns where the first block below the pages may begin; 0 while there is no memory.
    pub(crate) fn first_block(&self) -> usize {
        let heap = &self.engine.pages.below.heap;
        heap.contents(heap.first()).addr()
    }

    /// Calls `visit` for each page that serves a class, with the class and the number of its blocks
    /// in use. O(pages).
    pub(crate) fn for_each_page(&self, visit: &mut dyn FnMut(u32, u32)) {
        let PageEngine { placement, pages, .. } = &self.engine;
        pages.headers.for_each(&mut |page| {
            let (class, supply) = (page.class(), placement.supplies.get(page.class()));
            let current = supply.page == Some(page);
            let window = if current { supply.window.count_ones() } else { 0 };
            let in_use = supply.capacity - page.free() - window;
            if current || in_use > 0 {
                visit(class, in_use);
            }
        });
    }
}

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests {
    use core::mem::MaybeUninit;
    use core::ptr::NonNull;

    use crate::pages::{Config, PageHeap};
    use crate::source::Reserved;

    /// Every page that serves a class is reported, whether its blocks are in the window or none of
    /// them is in use.
    #[test]
    fn pages_are_told_with_their_blocks_in_use() {
        let config = Config::with_page_size(4096);
        let mut heap = PageHeap::new(config, Reserved::new(1 << 24), ());
        heap.open().expect("there is memory");
        let (class, capacity) = (3, heap.engine.pages.class(3).capacity as usize);
        let told = |heap: &PageHeap<Reserved>| {
            let mut told = Vec::new();
            heap.for_each_page(&mut |class, in_use| told.push((class, in_use as usize)));
            told
        };
        assert_eq!(told(&heap), []);
        let mut places = vec![MaybeUninit::uninit(); 2 * capacity + 10];
        assert_eq!(heap.take_batch(class, &mut places, |_, _| {}), places.len());
        // SAFETY: all were written.
        let mut blocks: Vec<NonNull<u8>> =
            places.iter().map(|place| unsafe { place.assume_init() }).collect();
        blocks.sort_unstable();
        assert_eq!(told(&heap), [(class, capacity), (class, capacity), (class, 10)]);
        let free = |heap: &mut PageHeap<Reserved>, blocks: &[NonNull<u8>]| {
            // SAFETY: they are in use, and freed once.
            unsafe { heap.free_batch(blocks) }.expect("they were in use");
        };
        free(&mut heap, &blocks[..5]);
        assert_eq!(told(&heap), [(class, capacity - 5), (class, capacity), (class, 10)]);
        // Without blocks in use, the first page serves no class; the current one is reported all
        // the same.
        free(&mut heap, &blocks[5..capacity]);
        free(&mut heap, &blocks[2 * capacity..]);
        assert_eq!(told(&heap), [(class, capacity), (class, 0)]);
    }
}
