//! The forms that throw, for AArch64.

use core::arch::naked_asm;
use core::ffi::c_void;

use super::remedy::{allocate_aligned, remedy};

/// Calls the remedy and tries again, until there is a block.
#[cold]
#[unsafe(naked)]
pub(super) unsafe extern "C-unwind" fn again(size: usize, align: usize) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset w29, -32",
        ".cfi_offset w30, -24",
        "stp x19, x20, [sp, #16]",
        ".cfi_offset w19, -16",
        ".cfi_offset w20, -8",
        "mov x19, x0",
        "mov x20, x1",
        "2:",
        "mov x0, x20",
        "bl {remedy}",
        "blr x0",
        "mov x0, x19",
        "mov x1, x20",
        "bl {allocate_aligned}",
        "cbz x0, 2b",
        "ldp x19, x20, [sp, #16]",
        ".cfi_restore w19",
        ".cfi_restore w20",
        "ldp x29, x30, [sp], #32",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore w29",
        ".cfi_restore w30",
        "ret",
        ".cfi_endproc",
        remedy = sym remedy,
        allocate_aligned = sym allocate_aligned,
    )
}

/// Exports pairs of forms: one without an alignment, one with it. Each begins with a
/// [label](crate::new::replaced).
macro_rules! forms {
    ($($(#[$doc:meta])* $name:ident; $(#[$aligned_doc:meta])* $aligned:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// May be called at any time.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name(size: usize) -> *mut c_void {
            core::arch::naked_asm!(
                concat!(".globl pagewise_own", stringify!($name)),
                concat!(".hidden pagewise_own", stringify!($name)),
                concat!("pagewise_own", stringify!($name), ":"),
                ".cfi_startproc",
                // Saves the return address and the size.
                "stp x30, x0, [sp, #-16]!",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset w30, -16",
                "bl {allocate}",
                "ldp x30, x1, [sp], #16",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore w30",
                "cbz x0, 2f",
                "ret",
                "2:",
                "mov x0, x1",
                "mov x1, #16",
                "b {again}",
                ".cfi_endproc",
                allocate = sym allocate,
                again = sym again,
            )
        }

        $(#[$aligned_doc])*
        ///
        /// # Safety
        /// May be called at any time.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $aligned(size: usize, align: usize) -> *mut c_void {
            core::arch::naked_asm!(
                concat!(".globl pagewise_own", stringify!($aligned)),
                concat!(".hidden pagewise_own", stringify!($aligned)),
                concat!("pagewise_own", stringify!($aligned), ":"),
                ".cfi_startproc",
                "stp x30, x0, [sp, #-32]!",
                ".cfi_def_cfa_offset 32",
                ".cfi_offset w30, -32",
                "str x1, [sp, #16]",
                "bl {allocate_aligned}",
                "ldr x1, [sp, #16]",
                "ldp x30, x2, [sp], #32",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore w30",
                "cbz x0, 2f",
                "ret",
                "2:",
                "mov x0, x2",
                "b {again}",
                ".cfi_endproc",
                allocate_aligned = sym allocate_aligned,
                again = sym again,
            )
        }
    )*};
}

pub(super) use forms;
