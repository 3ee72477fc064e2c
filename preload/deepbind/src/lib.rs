//! `dlopen` that leaves `RTLD_DEEPBIND` out, for a library that takes the place of the C library's allocator.
//!
//! A library opened with that flag looks for its symbols in itself and its dependencies first. So it calls the C
//! library's `malloc` and `free`, whatever was preloaded, and the first block that it frees for the program, or the
//! program for it, belongs to another allocator: PHP, which opens its extensions so, stops at its start. Without
//! the flag, all of the process has one allocator. The price: where the program and the library each have a symbol of
//! one name, the library gets the program's, as with any library opened without the flag.
//!
//! The loader looks for a file in the run path of whoever calls `dlopen`, and knows the caller by the return
//! address. So this function does not call the next `dlopen` but jumps to it, with the stack as it found it; only
//! machine code can say that. On processors for which it is not written, and under C libraries without the flag,
//! nothing is exported.

#![no_std]
#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

/// The `dlopen` that comes after this one; null: not looked for yet.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The loader's `dlopen`, with every flag but `RTLD_DEEPBIND`.
///
/// # Safety
/// As for the loader's.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    naked_asm!(
        "and esi, {others}",
        "mov rax, qword ptr [rip + {next}]",
        "test rax, rax",
        "jnz 2f",
        // The arguments are kept; the stack is aligned to 16 bytes again.
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "2:",
        "jmp rax",
        others = const !libc::RTLD_DEEPBIND,
        next = sym NEXT,
        find = sym find,
    )
}

/// The loader's `dlopen`, with every flag but `RTLD_DEEPBIND`.
///
/// # Safety
/// As for the loader's.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    naked_asm!(
        "and w1, w1, {others}",
        "adrp x16, {next}",
        "ldr x16, [x16, :lo12:{next}]",
        "cbnz x16, 2f",
        // The arguments and the return address are kept.
        "stp x0, x1, [sp, #-32]!",
        "str x30, [sp, #16]",
        "bl {find}",
        "mov x16, x0",
        "ldr x30, [sp, #16]",
        "ldp x0, x1, [sp], #32",
        "2:",
        "br x16",
        others = const !libc::RTLD_DEEPBIND,
        next = sym NEXT,
        find = sym find,
    )
}

/// Finds the next `dlopen`. Any number of threads may do this at the same time: they find the same.
extern "C" fn find() -> *mut c_void {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
    let next = if found.is_null() { refuses as *mut c_void } else { found };
    NEXT.store(next, Relaxed);
    next
}

/// Stands for a `dlopen` that the process does not have, say an old C library's before its `libdl` is loaded.
extern "C" fn refuses(_: *const c_char, _: c_int) -> *mut c_void {
    ptr::null_mut()
}
