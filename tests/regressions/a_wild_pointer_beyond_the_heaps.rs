//! Freeing, resizing or measuring a pointer into the allocator's address window, but into no heap,
//! ended with SIGSEGV: the table for that part of the window does not exist.

use crate::ALLOCATOR;
use crate::child::aborts;

const MESSAGE: &str = "pagewise: a pointer was freed or resized that is not a block in use";

/// Returns an address a quarter of the window above a block: the slot of a heap that is never
/// opened.
fn pointer_beyond_the_heaps() -> *mut u8 {
    ALLOCATOR.allocate(100).wrapping_add(if usize::BITS == 64 { 1 << 40 } else { 1 << 28 })
}

macro_rules! misused {
    ($($test:ident: $alone:ident, |$block:ident| $misuse:expr;)*) => {$(
        #[test]
        fn $test() {
            aborts(concat!("a_wild_pointer_beyond_the_heaps::", stringify!($alone)), MESSAGE);
        }

        #[test]
        #[ignore = "in a process of its own, which it stops"]
        fn $alone() {
            let $block = pointer_beyond_the_heaps();
            // SAFETY: this is the misuse to be detected.
            let _ = unsafe { $misuse };
        }
    )*};
}

misused! {
    is_not_freed: freed, |block| ALLOCATOR.free(block);
    is_not_resized: resized, |block| ALLOCATOR.reallocate(block, 50_000);
    is_not_resized_to_a_mapping: mapped, |block| ALLOCATOR.reallocate(block, 50 << 20);
    is_not_measured: measured, |block| ALLOCATOR.usable_size(block);
}

/// A free in an unreadable mapping ended the same way.
#[test]
fn a_pointer_into_unreadable_memory_is_reported() {
    aborts("a_wild_pointer_beyond_the_heaps::closed", MESSAGE);
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn closed() {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh mapping; freeing it is the misuse to be detected.
    unsafe {
        let closed = libc::mmap(std::ptr::null_mut(), 1 << 16, libc::PROT_NONE, flags, -1, 0);
        ALLOCATOR.free(closed.cast::<u8>().add(128));
    }
}
