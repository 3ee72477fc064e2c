//! The allocators compared, behind one interface.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};

use pagewise::catalogue::BestFit;
use pagewise::pages::Config;
use pagewise::source::Region;
use pagewise::{PageHeap, SmallHeap, Strategy};

/// Ours first.
pub(crate) const NAMES: [&str; 6] =
    ["pagewise", "talc", "rlsf", "dlmalloc", "linked_list_allocator", "buddy_system_allocator"];

/// The allocators for small regions, ours first. They include this crate's other allocators and the
/// two heaps of `embedded-alloc`.
pub(crate) const SMALL: [&str; 9] = [
    "pagewise small",
    "pagewise",
    "BEST-FIT",
    "talc",
    "linked_list_allocator",
    "embedded-alloc LLFF",
    "embedded-alloc TLSF",
    "rlsf",
    "buddy_system_allocator",
];

/// Returns a name if it is an allocator's.
pub(crate) fn known(name: &str) -> Result<&str, String> {
    let mut all: Vec<&str> = NAMES.into_iter().chain(SMALL).collect();
    all.sort_unstable();
    all.dedup();
    let unknown = || format!("no allocator is called {name:?}; there are {}", all.join(", "));
    all.contains(&name).then_some(name).ok_or_else(unknown)
}

/// The interface of all of them.
trait Heap {
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>>;

    /// # Safety
    /// The block is in use, with this layout.
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout);

    /// # Safety
    /// As [`free`](Self::free).
    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        size: usize,
    ) -> Option<NonNull<u8>> {
        let new_layout = Layout::from_size_align(size, layout.align()).ok()?;
        let moved = self.allocate(new_layout)?;
        // SAFETY: both blocks are in use and this long.
        unsafe {
            moved.copy_from_nonoverlapping(block, layout.size().min(size));
            self.free(block, layout);
        }
        Some(moved)
    }
}

/// An allocator over a region borrowed for `'m`.
pub(crate) struct Peer<'m> {
    heap: Box<dyn Heap + 'm>,
    /// Factor by which a round has fewer actions.
    pub(crate) slowness: usize,
}

impl Peer<'_> {
    /// Makes the allocator of this [known] name over `len` bytes at `base`.
    ///
    /// # Safety
    /// The memory is valid, aligned to 8 bytes, and used only by this allocator while the allocator
    /// is in use.
    pub(crate) unsafe fn new(name: &str, base: *mut u8, len: usize) -> Self {
        // SAFETY, of all: the caller guarantees what each allocator requires.
        let heap: Box<dyn Heap> = match name {
            "pagewise" => {
                // SAFETY: as above.
                let region = unsafe { Region::new(base, len) };
                Box::new(PageHeap::new(Config::arena(), region, ()))
            }
            "pagewise small" => {
                // SAFETY: as above.
                Box::new(SmallHeap::new(unsafe { Region::new(base, len) }, ()))
            }
            "BEST-FIT" => {
                // SAFETY: as above.
                Box::new(BestFit::new(64, unsafe { Region::new(base, len) }, ()))
            }
            "embedded-alloc LLFF" => {
                let heap = embedded_alloc::LlffHeap::empty();
                // SAFETY: as above.
                unsafe { heap.init(base.expose_provenance(), len) };
                Box::new(Embedded(heap))
            }
            "embedded-alloc TLSF" => {
                let heap = embedded_alloc::TlsfHeap::empty();
                // SAFETY: as above.
                unsafe { heap.init(base.expose_provenance(), len) };
                Box::new(Embedded(heap))
            }
            "talc" => {
                // SAFETY: as above.
                let claim = unsafe { talc::source::Claim::new(base, len) };
                Box::new(talc::TalcCell::new(claim))
            }
            "rlsf" => {
                let mut heap = Tlsf::new();
                let pool = NonNull::slice_from_raw_parts(NonNull::new(base).expect("memory"), len);
                // SAFETY: as above.
                unsafe { heap.insert_free_block_ptr(pool) };
                Box::new(heap)
            }
            "dlmalloc" => {
                Box::new(dlmalloc::Dlmalloc::new_with_allocator(Once(Cell::new((base, len)))))
            }
            "linked_list_allocator" => {
                // SAFETY: as above.
                Box::new(unsafe { linked_list_allocator::Heap::new(base, len) })
            }
            "buddy_system_allocator" => {
                let mut heap = buddy_system_allocator::Heap::<32>::new();
                // SAFETY: as above.
                unsafe { heap.init(base.expose_provenance(), len) };
                Box::new(heap)
            }
            _ => unreachable!("{name:?} is in no list"),
        };
        Self { heap, slowness: if name == "linked_list_allocator" { 20 } else { 1 } }
    }

    pub(crate) fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.heap.allocate(layout)
    }

    /// Frees a block of this allocator.
    pub(crate) fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the mixes free what they allocated, once, with its layout.
        unsafe { self.heap.free(block, layout) };
    }

    /// Resizes a block of this allocator.
    pub(crate) fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        size: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: as above.
        unsafe { self.heap.reallocate(block, layout, size) }
    }
}

/// One of `embedded-alloc`'s heaps, which use a critical section internally.
struct Embedded<A>(A);

impl<A: GlobalAlloc> Heap for Embedded<A> {
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the mixes request no blocks of size 0.
        NonNull::new(unsafe { self.0.alloc(layout) })
    }

    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.0.dealloc(block.as_ptr(), layout) };
    }

    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        size: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: the caller gives the same guarantees.
        NonNull::new(unsafe { self.0.realloc(block.as_ptr(), layout, size) })
    }
}

/// The critical section of a single-threaded program: it costs nothing.
struct OneThread;

critical_section::set_impl!(OneThread);

// SAFETY: the bench has one thread.
unsafe impl critical_section::Impl for OneThread {
    unsafe fn acquire() -> critical_section::RawRestoreState {}
    unsafe fn release((): critical_section::RawRestoreState) {}
}

impl<E> Heap for pagewise::Heap<E, Region>
where
    Self: Strategy,
{
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        Strategy::allocate(self, layout).ok().map(NonNull::cast)
    }

    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.deallocate(block, layout) };
    }

    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        size: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: the caller gives the same guarantees.
        unsafe { Strategy::reallocate(self, block, layout, size) }.ok().map(NonNull::cast)
    }
}

impl Heap for talc::TalcCell<talc::source::Claim> {
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the mixes request no blocks of size 0.
        NonNull::new(unsafe { GlobalAlloc::alloc(self, layout) })
    }

    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.dealloc(block.as_ptr(), layout) };
    }

    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        size: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: the caller gives the same guarantees.
        NonNull::new(unsafe { self.realloc(block.as_ptr(), layout, size) })
    }
}

/// Configured as in talc's benchmarks.
type Tlsf =
    rlsf::Tlsf<'static, usize, usize, { usize::BITS as usize - 12 }, { usize::BITS as usize }>;

impl Heap for Tlsf {
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        Tlsf::allocate(self, layout)
    }

    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.deallocate(block, layout.align()) };
    }

    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        size: usize,
    ) -> Option<NonNull<u8>> {
        let new_layout = Layout::from_size_align(size, layout.align()).ok()?;
        // SAFETY: the caller gives the same guarantees.
        unsafe { Tlsf::reallocate(self, block, new_layout) }
    }
}

/// Gives `dlmalloc` a region, once.
struct Once(Cell<(*mut u8, usize)>);

// SAFETY: the region moves with it.
unsafe impl Send for Once {}

// SAFETY: it hands its region out once and accepts nothing back.
unsafe impl dlmalloc::Allocator for Once {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let (base, len) = self.0.get();
        if size > len {
            return (null_mut(), 0, 0);
        }
        self.0.set((null_mut(), 0));
        (base, len, 1)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        false
    }

    fn page_size(&self) -> usize {
        4096
    }
}

impl Heap for dlmalloc::Dlmalloc<Once> {
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the mixes request no blocks of size 0.
        NonNull::new(unsafe { self.malloc(layout.size(), layout.align()) })
    }

    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller gives the same guarantees.
        unsafe { dlmalloc::Dlmalloc::free(self, block.as_ptr(), layout.size(), layout.align()) };
    }

    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        size: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: the caller gives the same guarantees.
        NonNull::new(unsafe { self.realloc(block.as_ptr(), layout.size(), layout.align(), size) })
    }
}

impl Heap for linked_list_allocator::Heap {
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.allocate_first_fit(layout).ok()
    }

    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.deallocate(block, layout) };
    }
}

impl Heap for buddy_system_allocator::Heap<32> {
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.alloc(layout).ok()
    }

    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        self.dealloc(block, layout);
    }
}
