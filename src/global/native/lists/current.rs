//! Keeps the pointer to the calling thread's quick lists, in a thread-local variable.

pub(in crate::global::native) use place::{lists, set};

#[cfg(not(any(
    all(
        any(feature = "initial-exec", not(feature = "std")),
        any(target_arch = "x86_64", target_arch = "aarch64"),
        target_os = "linux"
    ),
    all(windows, target_env = "gnu", not(target_abi = "llvm")),
)))]
mod place {
    use core::cell::Cell;

    use super::super::quick::{self, Lists};

    std::thread_local! {
        // It has no destructor and a constant initialiser, so using it never allocates.
        static LISTS: Cell<*mut Lists> = const { Cell::new(quick::empty()) };
    }

    #[inline(always)]
    pub(in crate::global::native) fn lists() -> *mut Lists {
        LISTS.with(Cell::get)
    }

    pub(in crate::global::native) fn set(lists: *mut Lists) {
        LISTS.with(|cell| cell.set(lists));
    }
}

/// For shared libraries on Linux, and for programs without `std`. In a shared library a
/// `thread_local!` goes through `__tls_get_addr`, which costs time and may allocate; without `std`
/// there is none. So this variable is defined and accessed by hand, in the initial-exec model: at a
/// fixed distance from the thread pointer, in the memory that every thread is created with. A
/// library must then be loaded with the program, not later.
#[cfg(all(
    any(feature = "initial-exec", not(feature = "std")),
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux"
))]
mod place {
    use core::arch::{asm, global_asm};

    use super::super::quick::{self, Lists};

    global_asm!(
        ".pushsection .tdata.pagewise_lists,\"awT\",@progbits",
        ".globl pagewise_lists",
        ".hidden pagewise_lists",
        ".type pagewise_lists,@object",
        ".size pagewise_lists,8",
        ".p2align 3",
        "pagewise_lists:",
        ".quad {empty}",
        ".popsection",
        empty = sym quick::EMPTY,
    );

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(in crate::global::native) fn lists() -> *mut Lists {
        let lists;
        // SAFETY: reads the eight bytes of this thread's own variable.
        unsafe {
            asm!(
                "mov {lists}, qword ptr [rip + pagewise_lists@GOTTPOFF]",
                "mov {lists}, qword ptr fs:[{lists}]",
                lists = out(reg) lists,
                options(nostack, readonly, preserves_flags),
            );
        }
        lists
    }

    #[cfg(target_arch = "x86_64")]
    pub(in crate::global::native) fn set(lists: *mut Lists) {
        // SAFETY: writes the eight bytes of this thread's own variable.
        unsafe {
            asm!(
                "mov {offset}, qword ptr [rip + pagewise_lists@GOTTPOFF]",
                "mov qword ptr fs:[{offset}], {lists}",
                offset = out(reg) _,
                lists = in(reg) lists,
                options(nostack, preserves_flags),
            );
        }
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub(in crate::global::native) fn lists() -> *mut Lists {
        let lists;
        // SAFETY: reads the eight bytes of this thread's own variable.
        unsafe {
            asm!(
                "mrs {thread}, tpidr_el0",
                "adrp {lists}, :gottprel:pagewise_lists",
                "ldr {lists}, [{lists}, #:gottprel_lo12:pagewise_lists]",
                "ldr {lists}, [{thread}, {lists}]",
                thread = out(reg) _,
                lists = out(reg) lists,
                options(nostack, readonly, preserves_flags),
            );
        }
        lists
    }

    #[cfg(target_arch = "aarch64")]
    pub(in crate::global::native) fn set(lists: *mut Lists) {
        // SAFETY: writes the eight bytes of this thread's own variable.
        unsafe {
            asm!(
                "mrs {thread}, tpidr_el0",
                "adrp {offset}, :gottprel:pagewise_lists",
                "ldr {offset}, [{offset}, #:gottprel_lo12:pagewise_lists]",
                "str {lists}, [{thread}, {offset}]",
                thread = out(reg) _,
                offset = out(reg) _,
                lists = in(reg) lists,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// For Windows with the GNU tools. There the first use of a `thread_local!` allocates. So this
/// variable is in the section that the loader copies for each thread, as C compilers for this
/// target have it.
#[cfg(all(windows, target_env = "gnu", not(target_abi = "llvm")))]
mod place {
    use core::arch::{asm, global_asm};

    use super::super::quick::{self, Lists};

    /// Name of the variable; it contains the version, so that two versions of this library can be
    /// in one program.
    macro_rules! variable {
        () => {
            concat!("pagewise_lists_", env!("CARGO_PKG_VERSION"))
        };
    }

    // The linker sorts these sections by name, and the last is `.tls$ZZZ`.
    global_asm!(
        ".section .tls$PAGEWISE,\"dw\"",
        concat!(".globl \"", variable!(), "\""),
        ".p2align 3",
        concat!("\"", variable!(), "\":"),
        #[cfg(target_pointer_width = "64")]
        ".quad {empty}",
        #[cfg(target_pointer_width = "32")]
        ".long {empty}",
        ".text",
        empty = sym quick::EMPTY,
    );

    /// Returns the address of the calling thread's variable.
    #[inline(always)]
    fn place() -> *mut *mut Lists {
        let place;
        // SAFETY: reads only what the loader has set up for this thread.
        unsafe {
            #[cfg(target_pointer_width = "64")]
            asm!(
                "mov {index:e}, dword ptr [rip + _tls_index]",
                "mov {place}, qword ptr gs:[0x58]",
                "mov {place}, qword ptr [{place} + 8 * {index}]",
                concat!("lea {place}, [{place} + \"", variable!(), "\"@SECREL32]"),
                index = out(reg) _,
                place = out(reg) place,
                options(nostack, readonly, pure, preserves_flags),
            );
            #[cfg(target_pointer_width = "32")]
            asm!(
                "mov {index}, dword ptr [__tls_index]",
                "mov {place}, dword ptr fs:[0x2c]",
                "mov {place}, dword ptr [{place} + 4 * {index}]",
                concat!("lea {place}, [{place} + \"", variable!(), "\"@SECREL32]"),
                index = out(reg) _,
                place = out(reg) place,
                options(nostack, readonly, pure, preserves_flags),
            );
        }
        place
    }

    #[inline(always)]
    pub(in crate::global::native) fn lists() -> *mut Lists {
        // SAFETY: the variable is this thread's own.
        unsafe { place().read() }
    }

    pub(in crate::global::native) fn set(lists: *mut Lists) {
        // SAFETY: the variable is this thread's own.
        unsafe { place().write(lists) };
    }
}
