//! A `dlopen` that ignores `RTLD_DEEPBIND`, for a library that replaces the C library's allocator.
//!
//! A library opened with that flag looks up its symbols first in itself and its dependencies. So it
//! calls the C library's `malloc` and `free` even if another allocator is preloaded. The first
//! block that the program allocates and the library frees, or the reverse, then goes to the wrong
//! allocator: PHP, which opens its extensions with the flag, crashes at startup. Without the flag,
//! the whole process uses one allocator. The price: if the program and the library both define a
//! symbol, the library gets the program's, as with any library opened without the flag.
//!
//! The loader searches the run path of the object that called `dlopen`, which it finds by the
//! return address. This function therefore does not call the next `dlopen` but jumps to it, with
//! the stack unchanged; only assembly code can do that. On processors without such code here, and
//! with C libraries that lack the flag, the crate exports nothing.

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

/// The next `dlopen` in search order; null until it has been looked up.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The loader's `dlopen`, without the flag `RTLD_DEEPBIND`.
///
/// # Safety
/// As for the loader's function.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    naked_asm!(
        "and esi, {others}",
        "mov rax, qword ptr [rip + {next}]",
        "test rax, rax",
        "jnz 2f",
        // Saves the arguments, and aligns the stack to 16 bytes.
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

/// The loader's `dlopen`, without the flag `RTLD_DEEPBIND`.
///
/// # Safety
/// As for the loader's function.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    naked_asm!(
        "and w1, w1, {others}",
        "adrp x16, {next}",
        "ldr x16, [x16, :lo12:{next}]",
        "cbnz x16, 2f",
        // Saves the arguments and the return address.
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

/// Finds the next `dlopen`. Threads may do this at the same time; all find the same function.
extern "C" fn find() -> *mut c_void {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
    let next = if found.is_null() { refuses as *mut c_void } else { found };
    NEXT.store(next, Relaxed);
    next
}

/// Serves as the next `dlopen` if there is none, for example with an old C library before its
/// `libdl` is loaded.
extern "C" fn refuses(_: *const c_char, _: c_int) -> *mut c_void {
    ptr::null_mut()
}
