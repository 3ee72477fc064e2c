//! The C interface of the allocator that this program was built with: blocks are resized and freed
//! without their size. smmalloc has none.

#[cfg(feature = "pagewise")]
mod face {
    use crate::allocator::ALLOCATOR;

    #[inline]
    pub(crate) unsafe fn malloc(size: usize) -> *mut u8 {
        ALLOCATOR.allocate(size)
    }

    #[inline]
    pub(crate) unsafe fn free(block: *mut u8) {
        // SAFETY: the caller guarantees it.
        unsafe { ALLOCATOR.free(block) }
    }

    #[inline]
    pub(crate) unsafe fn realloc(block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees it.
        unsafe { ALLOCATOR.reallocate(block, size) }
    }

    #[inline]
    pub(crate) unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: the caller guarantees it.
        unsafe { ALLOCATOR.usable_size(block) }
    }
}

/// Defines the functions for an allocator in another language or crate, with C-like functions.
#[cfg(not(any(feature = "pagewise", feature = "smmalloc")))]
macro_rules! face {
    ($of:path, $malloc:ident, $free:ident, $realloc:ident, $usable_size:ident) => {
        mod face {
            use $of as theirs;

            #[inline]
            pub(crate) unsafe fn malloc(size: usize) -> *mut u8 {
                #[allow(unused_unsafe, reason = "some of them are safe")]
                // SAFETY: any size may be requested.
                unsafe {
                    theirs::$malloc(size).cast()
                }
            }

            #[inline]
            pub(crate) unsafe fn free(block: *mut u8) {
                // SAFETY: the caller guarantees it.
                unsafe { theirs::$free(block.cast()) }
            }

            #[inline]
            pub(crate) unsafe fn realloc(block: *mut u8, size: usize) -> *mut u8 {
                // SAFETY: the caller guarantees it.
                unsafe { theirs::$realloc(block.cast(), size).cast() }
            }

            #[inline]
            pub(crate) unsafe fn usable_size(block: *mut u8) -> usize {
                // SAFETY: the caller guarantees it.
                unsafe { theirs::$usable_size(block.cast()) }
            }
        }
    };
}

#[cfg(any(feature = "mimalloc3", feature = "mimalloc2", feature = "mimalloc-crate"))]
face!(libmimalloc_sys, mi_malloc, mi_free, mi_realloc, mi_usable_size);
#[cfg(feature = "jemalloc")]
face!(tikv_jemalloc_sys, malloc, free, realloc, malloc_usable_size);
#[cfg(feature = "snmalloc")]
face!(snmalloc_sys, sn_malloc, sn_free, sn_realloc, sn_malloc_usable_size);
#[cfg(feature = "rpmalloc")]
face!(rpmalloc_sys, rpmalloc, rpfree, rprealloc, rpmalloc_usable_size);
#[cfg(feature = "rusty_alloc")]
face!(rusty_alloc::alloc, malloc, free, realloc, usable_size);
#[cfg(not(any(
    feature = "pagewise",
    feature = "mimalloc3",
    feature = "mimalloc2",
    feature = "mimalloc-crate",
    feature = "jemalloc",
    feature = "snmalloc",
    feature = "rpmalloc",
    feature = "smmalloc",
    feature = "rusty_alloc"
)))]
face!(crate::system::c, malloc, free, realloc, usable_size);

#[cfg(not(feature = "smmalloc"))]
pub(crate) const WORKLOADS: &[(&str, crate::workloads::Workload)] = &[
    ("medium block", workloads::medium),
    ("usable size", workloads::usable_size),
    ("realloc in place", workloads::same_class),
    ("realloc growing", workloads::growing),
    ("realloc side by side", workloads::side_by_side),
];
#[cfg(feature = "smmalloc")]
pub(crate) const WORKLOADS: &[(&str, crate::workloads::Workload)] = &[];

#[cfg(not(feature = "smmalloc"))]
mod workloads {
    use std::hint::black_box;

    use super::face::{free, malloc, realloc, usable_size as size_of_block};
    use crate::random::Random;

    /// Writes the first byte of a block, which must exist.
    ///
    /// # Safety
    /// The block is null or in use.
    unsafe fn touch(block: *mut u8) {
        assert!(!block.is_null(), "out of memory");
        // SAFETY: the block has at least one byte.
        unsafe { block.write(1) };
    }

    /// Allocates and frees a block of 20,000 bytes.
    pub(super) fn medium(parts: usize) -> usize {
        for _ in 0..20_000_000 / parts {
            // SAFETY: the block is in use, and freed once.
            unsafe {
                let block = malloc(black_box(20_000));
                touch(block);
                free(black_box(block));
            }
        }
        parts
    }

    /// Ten thousand blocks of 16 to 1,024 bytes, each queried for its size repeatedly.
    pub(super) fn usable_size(parts: usize) -> usize {
        let mut random = Random::new(21);
        let mut total = 0_usize;
        // SAFETY: the blocks are in use, and freed once.
        unsafe {
            let blocks: Vec<*mut u8> =
                (0..10_000).map(|_| malloc(16 + random.below(1009))).collect();
            for _ in 0..4_000 / parts {
                for &block in &blocks {
                    total = total.wrapping_add(black_box(size_of_block(black_box(block))));
                }
            }
            blocks.into_iter().for_each(|block| free(block));
        }
        total
    }

    /// Resizes blocks by a byte, so little that they stay in place under every allocator.
    pub(super) fn same_class(parts: usize) -> usize {
        let mut random = Random::new(22);
        // SAFETY: the blocks are in use, and freed once.
        unsafe {
            let mut blocks: Vec<*mut u8> =
                (0..1_000).map(|_| malloc(18 + 16 * random.below(62))).collect();
            let sizes: Vec<usize> = blocks.iter().map(|&block| size_of_block(block)).collect();
            for round in 0..30_000 / parts {
                for (block, size) in blocks.iter_mut().zip(&sizes) {
                    *block = black_box(realloc(black_box(*block), size - round % 2));
                    touch(*block);
                }
            }
            blocks.into_iter().for_each(|block| free(block));
        }
        parts
    }

    /// A thousand strings grow by 1 to 64 bytes at a time, and start again beyond 1,000.
    pub(super) fn growing(parts: usize) -> usize {
        let mut random = Random::new(23);
        let mut total = 0;
        // SAFETY: the blocks are in use, and freed once.
        unsafe {
            let mut strings: Vec<(*mut u8, usize)> = (0..1_000).map(|_| (malloc(16), 16)).collect();
            for _ in 0..20_000_000 / parts {
                let (block, len) = &mut strings[random.below(1_000)];
                *len += 1 + random.below(64);
                if *len > 1_000 {
                    free(*block);
                    (*block, *len) = (malloc(16), 16);
                } else {
                    *block = realloc(*block, *len);
                }
                touch(*block);
                total += *len;
            }
            strings.into_iter().for_each(|(block, _)| free(block));
        }
        total
    }

    /// A hundred buffers grow by 500 to 1,500 bytes at a time, up to 500,000.
    pub(super) fn side_by_side(parts: usize) -> usize {
        let mut random = Random::new(24);
        let mut total = 0;
        // SAFETY: the blocks are in use, and freed once.
        unsafe {
            let mut buffers: Vec<(*mut u8, usize)> = (0..100).map(|_| (malloc(16), 16)).collect();
            for _ in 0..300_000 / parts {
                let (block, len) = &mut buffers[random.below(100)];
                *len += 500 + random.below(1_000);
                if *len > 500_000 {
                    free(*block);
                    (*block, *len) = (malloc(16), 16);
                } else {
                    *block = realloc(*block, *len);
                    block.add(*len - 1).write(1);
                }
                touch(*block);
                total += *len;
            }
            buffers.into_iter().for_each(|(block, _)| free(block));
        }
        total
    }
}
