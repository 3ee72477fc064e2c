//! The forms that throw, for x86-64.

use core::arch::naked_asm;
use core::ffi::c_void;

use super::remedy::{allocate_aligned, remedy};

/// Calls the remedy and tries again, until there is a block.
#[cold]
#[unsafe(naked)]
pub(super) unsafe extern "C-unwind" fn again(size: usize, align: usize) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "push r12",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r12, 0",
        // Aligns the stack to 16 bytes.
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "mov rbx, rdi",
        "mov r12, rsi",
        "2:",
        "mov rdi, r12",
        "call {remedy}",
        "call rax",
        "mov rdi, rbx",
        "mov rsi, r12",
        "call {allocate_aligned}",
        "test rax, rax",
        "jz 2b",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop r12",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r12",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbx",
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
                // Saves the size, and aligns the stack to 16 bytes.
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "call {allocate}",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "test rax, rax",
                "jz 2f",
                "ret",
                "2:",
                "mov esi, 16",
                "jmp {again}",
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
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "call {allocate_aligned}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "test rax, rax",
                "jz 2f",
                "ret",
                "2:",
                "jmp {again}",
                ".cfi_endproc",
                allocate_aligned = sym allocate_aligned,
                again = sym again,
            )
        }
    )*};
}

pub(super) use forms;
