//! Fixed regions in a program without `std` and without a system allocator: LEAST-FREE over 64 KiB
//! of static memory, and an arena made at compile time over another 64 KiB.
//!
//! It links the C start-up code only to be runnable here; its exit status is the number of the
//! failed step, 0 for none.

#![no_std]
#![no_main]

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::panic::PanicInfo;

use pagewise::arena::lock::Unshared;
use pagewise::catalogue::{LeastFree, PageHeap};
use pagewise::pages::Config;
use pagewise::{Arena, FreeResult, Region, Strategy};

/// Pages of 1 KiB suit a small region; blocks above 256 bytes are served by FIRST-FIT.
const CONFIG: Config = Config::with_page_size(1024);

static mut MEMORY: [MaybeUninit<u8>; 1 << 16] = [MaybeUninit::uninit(); 1 << 16];

static mut ARENA_MEMORY: [u8; 1 << 16] = [0; 1 << 16];

/// Could be the `#[global_allocator]`.
// SAFETY: only the arena uses the memory, and there is one thread.
static ARENA: Arena<PageHeap<Region>, Unshared> = unsafe {
    let region = Region::new((&raw mut ARENA_MEMORY).cast(), 1 << 16);
    Arena::with_lock(PageHeap::new(CONFIG, region, ()), Unshared::new())
};

#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    // SAFETY: `main` is entered once, and the static is used only here.
    let memory = unsafe { &mut *(&raw mut MEMORY) };
    let region = Region::from_static(memory);
    let mut heap = LeastFree::new(CONFIG, region, ());

    let (small, large) = (Layout::new::<[u32; 6]>(), Layout::new::<[u8; 3000]>());
    let (Ok(first), Ok(second)) = (heap.allocate(small), heap.allocate(large)) else { return 1 };
    if heap.audit().is_err() || heap.usage().requested != small.size() + large.size() {
        return 2;
    }
    // SAFETY: the blocks are no longer used.
    let freed = unsafe {
        heap.try_free(first.cast(), small) == FreeResult::Freed
            && heap.try_free(first.cast(), small) == FreeResult::Unallocated
            && heap.try_free(second.cast(), large) == FreeResult::Freed
    };
    if !freed {
        return 3;
    }
    if heap.usage().blocks != 0 {
        return 4;
    }
    let (Ok(first), Ok(second)) = (ARENA.allocate(small), ARENA.allocate(large)) else { return 5 };
    // SAFETY: the blocks are no longer used.
    let freed = unsafe {
        ARENA.try_free(first.cast(), small) == FreeResult::Freed
            && ARENA.try_free(first.cast(), small) == FreeResult::Unallocated
            && ARENA.try_free(second.cast(), large) == FreeResult::Freed
    };
    if !freed || ARENA.audit().is_err() {
        return 6;
    }
    if ARENA.usage().blocks == 0 { 0 } else { 7 }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

// Links the C library's start-up code and `memcpy`; no symbol of `std`.
#[link(name = "c")]
unsafe extern "C" {}
