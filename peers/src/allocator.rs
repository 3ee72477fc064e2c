//! The allocator that this program was built with: exactly one, chosen by a feature.

#[cfg(all(feature = "pagewise", not(feature = "many-heaps")))]
#[global_allocator]
pub(crate) static ALLOCATOR: pagewise::global::Pagewise = pagewise::global::Pagewise::new();

/// Has as many heaps as on a larger machine.
#[cfg(feature = "many-heaps")]
#[global_allocator]
pub(crate) static ALLOCATOR: pagewise::global::Pagewise =
    pagewise::global::Pagewise::with(pagewise::global::Tuning::new().heaps_per_cpu(16));

#[cfg(feature = "mimalloc-crate")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(feature = "snmalloc")]
#[global_allocator]
static ALLOCATOR: snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc;

#[cfg(feature = "rpmalloc")]
#[global_allocator]
static ALLOCATOR: rpmalloc::RpMalloc = rpmalloc::RpMalloc;

#[cfg(feature = "smmalloc")]
#[global_allocator]
static ALLOCATOR: smmalloc::Smalloc = smmalloc::Smalloc::new();

#[cfg(feature = "rusty_alloc")]
#[global_allocator]
static ALLOCATOR: rusty_alloc_api::RustyAlloc = rusty_alloc_api::RustyAlloc;

#[cfg(any(feature = "mimalloc3", feature = "mimalloc2"))]
#[global_allocator]
static ALLOCATOR: direct::MiMalloc = direct::MiMalloc;

/// mimalloc through its plain functions. Its crate uses the aligned ones for every block, which
/// costs extra.
#[cfg(any(feature = "mimalloc3", feature = "mimalloc2"))]
mod direct {
    use core::alloc::{GlobalAlloc, Layout};

    use libmimalloc_sys as mi;

    pub(super) struct MiMalloc;

    /// The alignment of every block from `mi_malloc`.
    const ALIGNED: usize = 16;

    /// Returns whether the plain functions suffice. Below 16 bytes mimalloc aligns to the size.
    fn plain(layout: Layout) -> bool {
        layout.align() <= ALIGNED && (layout.align() <= 8 || layout.size() >= layout.align())
    }

    // SAFETY: blocks are mimalloc's, with the requested size and alignment.
    unsafe impl GlobalAlloc for MiMalloc {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: any size and alignment may be requested.
            unsafe {
                if plain(layout) {
                    mi::mi_malloc(layout.size()).cast()
                } else {
                    mi::mi_malloc_aligned(layout.size(), layout.align()).cast()
                }
            }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            // SAFETY: as above.
            unsafe {
                if plain(layout) {
                    mi::mi_zalloc(layout.size()).cast()
                } else {
                    mi::mi_zalloc_aligned(layout.size(), layout.align()).cast()
                }
            }
        }

        unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
            // SAFETY: the caller guarantees it.
            unsafe { mi::mi_free(block.cast()) };
        }

        unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
            // SAFETY: the caller guarantees it.
            unsafe {
                if layout.align() <= 8 {
                    mi::mi_realloc(block.cast(), new_size).cast()
                } else {
                    mi::mi_realloc_aligned(block.cast(), new_size, layout.align()).cast()
                }
            }
        }
    }
}

/// Tells the allocator, if it can be told, that the calling thread will not allocate for a while.
pub(crate) fn thread_idle() {
    #[cfg(feature = "pagewise")]
    ALLOCATOR.thread_idle();
    #[cfg(any(feature = "mimalloc3", feature = "mimalloc2", feature = "mimalloc-crate"))]
    // SAFETY: it may be called at any time.
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
    #[cfg(feature = "rpmalloc")]
    // SAFETY: as above.
    unsafe {
        rpmalloc_sys::rpmalloc_thread_collect();
    }
    #[cfg(feature = "jemalloc")]
    // SAFETY: the name is one of jemalloc's, and nothing is read or written.
    unsafe {
        use core::ptr::null_mut;
        tikv_jemalloc_sys::mallctl(c"thread.idle".as_ptr(), null_mut(), null_mut(), null_mut(), 0);
    }
}
