//! Measures the flash and RAM that an allocator takes: a program that allocates and frees, with one
//! of the allocators or none. `sizes.sh` builds it for each.

#![no_std]
#![no_main]

use core::alloc::{GlobalAlloc, Layout};
use core::hint::black_box;
use core::panic::PanicInfo;

// Provides the critical section.
use cortex_m as _;
use cortex_m_rt::entry;

#[cfg(not(feature = "pagewise"))]
const LEN: usize = 16 << 10;
#[cfg(not(feature = "pagewise"))]
static mut MEMORY: [core::mem::MaybeUninit<u64>; LEN / 8] =
    [const { core::mem::MaybeUninit::uninit() }; LEN / 8];

#[cfg(feature = "pagewise")]
mod chosen {
    use pagewise::StaticArena;
    pub static HEAP: StaticArena<{ 16 << 10 }> = StaticArena::new();
    pub fn init() {}
}

#[cfg(any(feature = "pagewise-arena", feature = "pagewise-best-fit"))]
mod chosen {
    use super::{LEN, MEMORY};
    use pagewise::{Arena, Region};

    // SAFETY, of both: only the arena uses the memory.
    #[cfg(feature = "pagewise-arena")]
    pub static HEAP: Arena = Arena::fixed(unsafe { Region::new((&raw mut MEMORY).cast(), LEN) });
    #[cfg(feature = "pagewise-best-fit")]
    pub static HEAP: Arena<pagewise::catalogue::BestFit<Region>> =
        Arena::new(pagewise::catalogue::BestFit::new(
            64,
            unsafe { Region::new((&raw mut MEMORY).cast(), LEN) },
            (),
        ));
    pub fn init() {}
}

#[cfg(any(feature = "llff", feature = "tlsf"))]
mod chosen {
    use super::{LEN, MEMORY};

    #[cfg(feature = "llff")]
    pub static HEAP: embedded_alloc::LlffHeap = embedded_alloc::LlffHeap::empty();
    #[cfg(feature = "tlsf")]
    pub static HEAP: embedded_alloc::TlsfHeap = embedded_alloc::TlsfHeap::empty();
    pub fn init() {
        // SAFETY: called once; only the heap uses the memory.
        unsafe { HEAP.init((&raw mut MEMORY) as usize, LEN) };
    }
}

/// The allocators that have no lock of their own.
#[cfg(any(
    feature = "talc",
    feature = "rlsf",
    feature = "linked_list_allocator",
    feature = "buddy_system_allocator"
))]
mod chosen {
    use super::{GlobalAlloc, LEN, Layout, MEMORY};
    use core::cell::RefCell;
    use critical_section::Mutex;

    #[cfg(feature = "talc")]
    type Heap = Option<talc::TalcCell<talc::source::Claim>>;
    #[cfg(feature = "talc")]
    const EMPTY: Heap = None;

    #[cfg(feature = "rlsf")]
    type Heap = rlsf::Tlsf<'static, u32, u32, 16, 16>;
    #[cfg(feature = "rlsf")]
    const EMPTY: Heap = rlsf::Tlsf::new();

    #[cfg(feature = "linked_list_allocator")]
    type Heap = linked_list_allocator::Heap;
    #[cfg(feature = "linked_list_allocator")]
    const EMPTY: Heap = linked_list_allocator::Heap::empty();

    #[cfg(feature = "buddy_system_allocator")]
    type Heap = buddy_system_allocator::Heap<16>;
    #[cfg(feature = "buddy_system_allocator")]
    const EMPTY: Heap = buddy_system_allocator::Heap::new();

    pub struct Locked(Mutex<RefCell<Heap>>);
    // SAFETY: the mutex ensures exclusive access.
    unsafe impl Sync for Locked {}
    #[global_allocator]
    pub static HEAP: Locked = Locked(Mutex::new(RefCell::new(EMPTY)));

    pub fn init() {
        critical_section::with(|section| {
            let mut heap = HEAP.0.borrow_ref_mut(section);
            let base = (&raw mut MEMORY).cast::<u8>();
            // SAFETY: called once; only the heap uses the memory.
            unsafe {
                #[cfg(feature = "talc")]
                heap.replace(talc::TalcCell::new(talc::source::Claim::new(base, LEN)));
                #[cfg(feature = "rlsf")]
                heap.insert_free_block_ptr(core::ptr::NonNull::slice_from_raw_parts(
                    core::ptr::NonNull::new_unchecked(base),
                    LEN,
                ));
                #[cfg(feature = "linked_list_allocator")]
                heap.init(base, LEN);
                #[cfg(feature = "buddy_system_allocator")]
                heap.init(base as usize, LEN);
            }
        });
    }

    // SAFETY: the allocators keep the contract.
    unsafe impl GlobalAlloc for Locked {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            critical_section::with(|section| {
                let mut heap = self.0.borrow_ref_mut(section);
                #[cfg(feature = "talc")]
                let block = heap
                    .as_mut()
                    .map_or(core::ptr::null_mut(), |heap| unsafe { heap.alloc(layout) });
                #[cfg(feature = "rlsf")]
                let block =
                    heap.allocate(layout).map_or(core::ptr::null_mut(), |block| block.as_ptr());
                #[cfg(feature = "linked_list_allocator")]
                let block = heap
                    .allocate_first_fit(layout)
                    .map_or(core::ptr::null_mut(), |block| block.as_ptr());
                #[cfg(feature = "buddy_system_allocator")]
                let block =
                    heap.alloc(layout).map_or(core::ptr::null_mut(), |block| block.as_ptr());
                block
            })
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            critical_section::with(|section| {
                let mut heap = self.0.borrow_ref_mut(section);
                // SAFETY: the caller's promise.
                unsafe {
                    #[cfg(feature = "talc")]
                    if let Some(heap) = heap.as_mut() {
                        heap.dealloc(block, layout);
                    }
                    #[cfg(not(feature = "talc"))]
                    let block = core::ptr::NonNull::new_unchecked(block);
                    #[cfg(feature = "rlsf")]
                    heap.deallocate(block, layout.align());
                    #[cfg(any(feature = "linked_list_allocator"))]
                    heap.deallocate(block, layout);
                    #[cfg(feature = "buddy_system_allocator")]
                    heap.dealloc(block, layout);
                }
            });
        }
    }
}

/// No allocator: to measure the program itself.
#[cfg(not(any(
    feature = "pagewise",
    feature = "pagewise-arena",
    feature = "pagewise-best-fit",
    feature = "llff",
    feature = "tlsf",
    feature = "talc",
    feature = "rlsf",
    feature = "linked_list_allocator",
    feature = "buddy_system_allocator"
)))]
mod chosen {
    use super::{GlobalAlloc, LEN, Layout, MEMORY};

    pub struct None;
    pub static HEAP: None = None;
    pub fn init() {}

    // SAFETY: it is never run, only measured.
    unsafe impl GlobalAlloc for None {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            critical_section::with(|_| {
                // SAFETY: it is never run.
                if layout.size() > LEN { core::ptr::null_mut() } else { (&raw mut MEMORY).cast() }
            })
        }
        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {
            critical_section::with(|_| ());
        }
    }
}

#[entry]
fn main() -> ! {
    chosen::init();
    loop {
        let size = black_box(40);
        // SAFETY: the layout is valid; the block is freed once.
        unsafe {
            let layout = Layout::from_size_align_unchecked(size, black_box(4));
            let block = black_box(chosen::HEAP.alloc(layout));
            if !block.is_null() {
                chosen::HEAP.dealloc(block, layout);
            }
        }
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}
