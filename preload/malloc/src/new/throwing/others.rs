//! The forms that throw, for other processors. Exceptions pass through them if they are built with
//! `panic = "unwind"`; else an exception ends the process.

use core::ffi::c_void;

use super::remedy::{allocate_aligned, remedy};

/// Calls the remedy and tries again, until there is a block.
#[cold]
pub(super) fn again(size: usize, align: usize) -> *mut c_void {
    loop {
        // SAFETY: the remedy may be called at any time. Its exception passes through frames that own
        // nothing and whose ABIs allow unwinding.
        unsafe { remedy(align)() };
        let block = allocate_aligned(size, align);
        if !block.is_null() {
            return block.cast();
        }
    }
}

/// Exports pairs of forms: one without an alignment, one with it.
macro_rules! forms {
    ($($(#[$doc:meta])* $name:ident; $(#[$aligned_doc:meta])* $aligned:ident;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C-unwind" fn $name(size: usize) -> *mut c_void {
            let block = allocate(size);
            if block.is_null() { again(size, 16) } else { block.cast() }
        }

        $(#[$aligned_doc])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C-unwind" fn $aligned(size: usize, align: usize) -> *mut c_void {
            let block = allocate_aligned(size, align);
            if block.is_null() { again(size, align) } else { block.cast() }
        }
    )*};
}

pub(super) use forms;
