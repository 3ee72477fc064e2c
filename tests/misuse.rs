//! A checked free detects misuse and corrupts nothing: in every strategy of the catalogue, in
//! arenas, and in the default strategy under other configurations.

use std::alloc::Layout;
use std::ptr::{NonNull, without_provenance_mut};

use pagewise::PageHeap;
use pagewise::arena::{Arena, Claims};
use pagewise::pages::Config;
use pagewise::{AllocError, FreeResult, Region, Reserved, Strategy, catalogue};

/// The allocator to misuse: a strategy or an arena.
trait Checked {
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError>;
    fn try_free(&mut self, block: NonNull<u8>, layout: Layout) -> FreeResult;
    fn state(&self) -> (usize, usize);
    fn audit(&self);
}

impl Checked for Box<dyn Strategy + Send> {
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        (**self).allocate(layout).map(NonNull::cast)
    }

    fn try_free(&mut self, block: NonNull<u8>, layout: Layout) -> FreeResult {
        // SAFETY: if the block is freed, the test no longer uses it.
        unsafe { (**self).try_free(block, layout) }
    }

    fn state(&self) -> (usize, usize) {
        (self.usage().blocks, self.usage().requested)
    }

    fn audit(&self) {
        (**self).audit().expect("every invariant holds");
    }
}

impl<S: Strategy> Checked for Arena<S> {
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        Arena::allocate(self, layout).map(NonNull::cast)
    }

    fn try_free(&mut self, block: NonNull<u8>, layout: Layout) -> FreeResult {
        // SAFETY: as above.
        unsafe { Arena::try_free(self, block, layout) }
    }

    fn state(&self) -> (usize, usize) {
        (self.usage().blocks, self.usage().requested)
    }

    fn audit(&self) {
        Arena::audit(self).expect("every invariant holds");
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a valid layout")
}

/// Small, medium and large blocks, each filled with its number.
fn fill(heap: &mut impl Checked) -> Vec<(NonNull<u8>, Layout)> {
    let sizes = [8, 24, 40, 100, 200, 500, 1_000, 3_000, 20_000];
    let mut blocks = Vec::new();
    for number in 0..90u8 {
        let layout = layout(sizes[number as usize % sizes.len()]);
        let block = heap.allocate(layout).expect("room enough");
        // SAFETY: the block is ours, and this long.
        unsafe { block.write_bytes(number, layout.size()) };
        blocks.push((block, layout));
    }
    blocks
}

/// Panics unless every block still has its contents.
fn verify(blocks: &[(NonNull<u8>, Layout)], numbers: impl Iterator<Item = u8>) {
    for (&(block, layout), number) in blocks.iter().zip(numbers) {
        // SAFETY: the block is in use, this long, and was filled.
        let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), layout.size()) };
        assert!(bytes.iter().all(|&byte| byte == number), "block {number} was changed");
    }
}

/// Flips a bit of an address that leads far away, but stays within a process's address space.
const FAR: usize = 1 << (usize::BITS / 2 + 13);

/// Tries every misuse; panics with its name if one is not refused.
fn misuse(name: &str, mut heap: impl Checked) {
    let foreign = Box::new([0u64; 64]);
    let foreign = NonNull::from(&*foreign).cast::<u8>();
    assert_eq!(
        heap.try_free(foreign, layout(8)),
        FreeResult::Unallocated,
        "{name}, before any use"
    );

    let blocks = fill(&mut heap);
    let before = heap.state();
    let refused = |heap: &mut dyn Checked, block: NonNull<u8>, size, what| {
        assert_eq!(heap.try_free(block, layout(size)), FreeResult::Unallocated, "{name}: {what}");
        assert_eq!(heap.state(), before, "{name}: {what} changed something");
    };
    for &(block, of) in &blocks {
        for offset in [1, 2, 4, 8, 16, 64, of.size() / 2, of.size() - 1] {
            if offset > 0 && offset < of.size() {
                // SAFETY: the address lies in the block.
                refused(&mut heap, unsafe { block.add(offset) }, 8, "an interior pointer");
            }
        }
        refused(&mut heap, block, 16 * of.size(), "a layout too large");
        refused(&mut heap, block, isize::MAX as usize / 2, "a layout far too large");
        for wild in [0usize, 8, 4096, usize::MAX - 7, block.addr().get() ^ FAR] {
            if let Some(wild) = NonNull::new(without_provenance_mut(wild)) {
                refused(&mut heap, wild, of.size(), "a wild pointer");
            }
        }
    }
    refused(&mut heap, foreign, 8, "a foreign pointer");
    heap.audit();
    verify(&blocks, 0..);

    // Frees every other block, and each of those once more, at once and later.
    let (mut freed, mut kept) = (Vec::new(), Vec::new());
    for (number, &(block, of)) in blocks.iter().enumerate() {
        if number % 2 == 0 {
            assert_eq!(heap.try_free(block, of), FreeResult::Freed, "{name}: block {number}");
            assert_eq!(heap.try_free(block, of), FreeResult::Unallocated, "{name}: freed twice");
            freed.push((block, of));
        } else {
            kept.push((block, of));
        }
    }
    for &(block, of) in &freed {
        assert_eq!(heap.try_free(block, of), FreeResult::Unallocated, "{name}: freed twice, later");
    }
    heap.audit();
    verify(&kept, (0..).filter(|number| number % 2 == 1));

    exhaust(name, &mut heap, kept);
    assert_eq!(heap.state(), (0, 0), "{name}: everything was freed");
}

/// Exhausts memory; the `kept` blocks and the new ones can still be freed, and only once.
fn exhaust(name: &str, heap: &mut impl Checked, kept: Vec<(NonNull<u8>, Layout)>) {
    let mut more = Vec::new();
    for size in [20_000, 600, 40] {
        while let Ok(block) = heap.allocate(layout(size)) {
            more.push((block, layout(size)));
        }
    }
    heap.audit();
    for &(block, of) in kept.iter().chain(&more) {
        assert_eq!(heap.try_free(block, of), FreeResult::Freed, "{name}: exhausted");
        assert_eq!(
            heap.try_free(block, of),
            FreeResult::Unallocated,
            "{name}: exhausted, freed twice"
        );
    }
    heap.audit();
}

/// Address space of a strategy, bytes.
const CAPACITY: usize = 3 << 20;

#[test]
fn every_strategy_detects_misuse() {
    for entry in catalogue::all() {
        let heap = entry.build(Config::with_page_size(4096), CAPACITY);
        misuse(entry.name, heap.expect("a valid configuration"));
    }
}

#[test]
fn arenas_detect_misuse() {
    misuse("a growing arena", Arena::<PageHeap<Reserved>>::growing(CAPACITY));
    let mut memory = vec![0u64; CAPACITY / 8];
    // SAFETY: the arena, the only user of the memory, is dropped before it.
    let region = unsafe { Region::new(memory.as_mut_ptr().cast(), CAPACITY) };
    misuse("a fixed arena", Arena::<PageHeap<Region>>::fixed(region));
}

#[test]
fn an_arena_of_several_regions_detects_misuse() {
    let mut memories = [vec![0u64; CAPACITY / 16], vec![0u64; CAPACITY / 32]];
    let arena: Arena<Claims<PageHeap<Region>, 2>> = Arena::new(Claims::new());
    for memory in &mut memories {
        // SAFETY: the arena, the only user of the memories, is dropped before them.
        let region = unsafe { Region::new(memory.as_mut_ptr().cast(), memory.len() * 8) };
        let claimed = arena.claim(PageHeap::new(Config::arena(), region, ()));
        claimed.expect("room for two claims");
    }
    // SAFETY: as above; this region is refused.
    let region = unsafe { Region::new(std::ptr::null_mut(), 0) };
    assert!(arena.claim(PageHeap::new(Config::arena(), region, ())).is_err());
    misuse("an arena of two regions", arena);
}

/// An over-aligned block may start after a gap: no address in the gap, or inside the block, is
/// accepted as the block, whatever the layout.
#[test]
fn addresses_before_and_inside_an_aligned_block_are_refused() {
    for entry in catalogue::all() {
        let mut heap = entry.build(Config::new(), 1 << 28).expect("a valid configuration");
        let low = Checked::allocate(&mut heap, layout(40)).expect("room enough");
        let aligned = Layout::from_size_align(100, 1 << 17).expect("a valid layout");
        let block = Checked::allocate(&mut heap, aligned).expect("room enough");
        let addresses = (0..18).flat_map(|shift| {
            let distance = 1usize << shift;
            [block.addr().get() - distance, block.addr().get() + distance]
        });
        let mut starts = Vec::new();
        heap.walk(&mut |span| starts.push(span.start));
        let not_ours =
            |address: &usize| ![low, block].map(|one| one.addr().get()).contains(address);
        for address in addresses.chain(starts).filter(not_ours) {
            let Some(address) = NonNull::new(without_provenance_mut::<u8>(address)) else {
                continue;
            };
            for size in (0..19).flat_map(|shift| [(1 << shift) - 8 * usize::from(shift > 3), 100]) {
                for align in [1, 16, 1 << 12, 1 << 16] {
                    let layout = Layout::from_size_align(size, align).expect("a valid layout");
                    let answer = heap.try_free(address, layout);
                    let name = entry.name;
                    assert_eq!(
                        answer,
                        FreeResult::Unallocated,
                        "{name}, {address:?} as {layout:?}"
                    );
                }
            }
        }
        assert_eq!(heap.try_free(block, aligned), FreeResult::Freed, "{}", entry.name);
        heap.audit();
    }
}
