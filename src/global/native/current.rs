//! Where the pointer to the calling thread's quick lists is kept: a variable of the thread's own.

pub(super) use place::{lists, set};

#[cfg(not(all(feature = "initial-exec", target_arch = "x86_64")))]
mod place {
    use core::cell::Cell;

    use super::super::quick::{self, Lists};

    std::thread_local! {
        // Without a destructor, and initialised by a constant: using it never allocates.
        static LISTS: Cell<*mut Lists> = const { Cell::new(quick::empty()) };
    }

    #[inline(always)]
    pub(in super::super) fn lists() -> *mut Lists {
        LISTS.with(Cell::get)
    }

    pub(in super::super) fn set(lists: *mut Lists) {
        LISTS.with(|cell| cell.set(lists));
    }
}

/// A shared library reaches a `thread_local!` through `__tls_get_addr`, at a cost, and at the risk
/// of its allocating. So there the variable is defined and reached by hand, in the initial-exec
/// model: at a fixed distance from the thread pointer, in the memory every thread is created with.
/// The library must then be loaded with the program, not later.
#[cfg(all(feature = "initial-exec", target_arch = "x86_64"))]
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

    #[inline(always)]
    pub(in super::super) fn lists() -> *mut Lists {
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

    pub(in super::super) fn set(lists: *mut Lists) {
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
}
