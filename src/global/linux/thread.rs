//! The calling thread's quick lists: where the pointer to them is kept, and when it is set.
//!
//! ```text
//! first slow path              thread's end (a pthread key's destructor)
//!  empty() ────────▶ own lists ────────────────────────────▶ gone()
//! ```
//! Other destructors may run after ours, and may allocate: a thread whose lists are `gone` takes
//! every block straight from a heap.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::heap::Heap;
use super::quick::{self, Lists};
use super::registry;
use super::tuning::Tuning;

#[cfg(not(all(feature = "initial-exec", target_arch = "x86_64")))]
mod place {
    use core::cell::Cell;

    use super::{Lists, quick};

    std::thread_local! {
        // Without a destructor, and initialised by a constant: using it never allocates.
        static LISTS: Cell<*mut Lists> = const { Cell::new(quick::empty()) };
    }

    #[inline(always)]
    pub(in super::super) fn lists() -> *mut Lists {
        LISTS.with(Cell::get)
    }

    pub(super) fn set(lists: *mut Lists) {
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

    pub(super) fn set(lists: *mut Lists) {
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

pub(super) use place::lists;

/// The key whose destructor tells of a thread's end; above the largest number, none.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Deletes the key when the library that has this code is unloaded: threads that end later must not be
/// led to where it was. Runs at the end of a program, too, whose other threads go on: what those keep on
/// their lists no longer matters then.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".fini_array")]
static CLOSE: extern "C" fn() = close;

#[cfg(not(miri))]
extern "C" fn close() {
    let key = KEY.swap(u32::MAX, Relaxed);
    if key != u32::MAX {
        // SAFETY: the key was made, and is deleted once.
        unsafe { libc::pthread_key_delete(key) };
    }
}

/// Has [`registry::thread_ended`] called where there was no key to be had: by what GNU's library calls
/// for C++, which keeps the library that has this code loaded until then.
#[cfg(all(target_env = "gnu", not(miri)))]
#[cold]
fn end_without_key(lists: NonNull<Lists>) {
    use core::ffi::{c_int, c_void};
    unsafe extern "C" {
        static __dso_handle: u8;
    }
    type Register =
        unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, *const u8) -> c_int;

    // SAFETY: a function of this name has this type. Here the thread has its lists, so it may allocate.
    unsafe {
        let register = libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_thread_atexit_impl".as_ptr());
        if !register.is_null() {
            let register = core::mem::transmute::<*mut c_void, Register>(register);
            register(registry::thread_ended, lists.as_ptr().cast(), &raw const __dso_handle);
        }
    }
}

/// Elsewhere the thread's lists are lost to others when it ends, and so are the few blocks on them.
#[cfg(not(all(target_env = "gnu", not(miri))))]
fn end_without_key(_: NonNull<Lists>) {}

/// Makes the key.
pub(super) fn open() {
    let mut key = 0;
    // SAFETY: the destructor takes what `enter` sets.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(registry::thread_ended)) } == 0 {
        KEY.store(key, Relaxed);
    }
}

/// Where the calling thread's blocks come from.
#[derive(Clone, Copy)]
pub(super) struct Caller {
    /// Its quick lists; `None` if it has none any more, or there is no memory for them.
    pub(super) lists: Option<NonNull<Lists>>,
    pub(super) heap: &'static Heap,
}

/// The calling thread, which has its quick lists afterwards, if it is not about to end and there is
/// memory for them. `None` if there are no heaps.
pub(super) fn enter(tuning: &Tuning) -> Option<Caller> {
    registry::adopt_orphans();
    let current = lists();
    let lists = if current == quick::gone() {
        None
    } else if current == quick::empty() {
        first(tuning)
    } else {
        NonNull::new(current)
    };
    let heap = match lists {
        // SAFETY: a thread's lists are never given up.
        Some(lists) => unsafe { lists.as_ref() }.heap(),
        None => registry::heaps().next()?,
    };
    Some(Caller { lists, heap })
}

#[cold]
fn first(tuning: &Tuning) -> Option<NonNull<Lists>> {
    let lists = registry::enter(tuning)?;
    place::set(lists.as_ptr());
    // From here on this thread can allocate, which the following may do.
    registry::opened(tuning);
    let key = KEY.load(Relaxed);
    // SAFETY: the key was made.
    let set = || unsafe { libc::pthread_setspecific(key, lists.as_ptr().cast()) == 0 };
    if key == u32::MAX || !set() {
        end_without_key(lists);
    }
    Some(lists)
}

/// The calling thread ends: what is on its lists goes back.
pub(super) fn ended(lists: *mut Lists) {
    registry::adopt_orphans();
    place::set(quick::gone());
    give_back(lists);
    let Some(lists) = NonNull::new(lists) else { return };
    // SAFETY: lists are never given up.
    let heap = unsafe { lists.as_ref() }.heap();
    registry::leave(lists);
    // There may be nobody else soon who uses that heap.
    heap.maintain();
}

/// Puts back what is on the calling thread's lists, if it has some.
pub(super) fn empty_lists() {
    give_back(lists());
}

/// Puts back what is on lists that are the calling thread's, or nobody's.
pub(super) fn give_back(lists: *mut Lists) {
    quick::for_each(|offset| {
        // SAFETY: nobody else uses the lists, which hold free blocks of their class.
        unsafe { quick::flush(lists, offset) };
    });
}
