//! Keeps the number of the calling thread in thread-local memory, without allocating.
//!
//! A `thread_local!` of a shared library is accessed through `__tls_get_addr`. That function may
//! allocate if a library has been loaded in the meantime, and would then get back here. On x86-64
//! the variable is therefore defined and accessed in assembly, in the initial-exec model: at a
//! fixed distance from the thread pointer, in memory that every thread is created with. A library
//! loaded together with the program always gets such memory. One that a running process loads
//! (`record --pid`) gets it from the bytes that glibc keeps in reserve; without them loading fails.

use pagewise_trace::raw::new_thread;

/// Returns the number of the calling thread.
#[inline]
pub(crate) fn number() -> u32 {
    match get() {
        0 => {
            let number = new_thread();
            set(number);
            number
        }
        number => number,
    }
}

#[cfg(target_arch = "x86_64")]
use initial_exec::{get, set};
#[cfg(not(target_arch = "x86_64"))]
use local::{get, set};

#[cfg(target_arch = "x86_64")]
mod initial_exec {
    use core::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.pagewise_record_thread,\"awT\",@nobits",
        ".globl pagewise_record_thread",
        ".hidden pagewise_record_thread",
        ".type pagewise_record_thread,@object",
        ".size pagewise_record_thread,4",
        ".p2align 2",
        "pagewise_record_thread:",
        ".zero 4",
        ".popsection",
    );

    #[inline]
    pub(super) fn get() -> u32 {
        let number;
        // SAFETY: reads the four bytes of the calling thread's variable.
        unsafe {
            asm!(
                "mov {offset}, qword ptr [rip + pagewise_record_thread@GOTTPOFF]",
                "mov {number:e}, dword ptr fs:[{offset}]",
                offset = out(reg) _,
                number = lateout(reg) number,
                options(nostack, readonly, preserves_flags),
            );
        }
        number
    }

    #[inline]
    pub(super) fn set(number: u32) {
        // SAFETY: writes the four bytes of the calling thread's variable.
        unsafe {
            asm!(
                "mov {offset}, qword ptr [rip + pagewise_record_thread@GOTTPOFF]",
                "mov dword ptr fs:[{offset}], {number:e}",
                offset = out(reg) _,
                number = in(reg) number,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod local {
    use core::cell::Cell;

    std::thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(0) };
    }

    pub(super) fn get() -> u32 {
        NUMBER.with(Cell::get)
    }

    pub(super) fn set(number: u32) {
        NUMBER.with(|cell| cell.set(number));
    }
}
