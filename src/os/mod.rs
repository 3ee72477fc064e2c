//! The operating system: the only place where the library calls it, but for what a recorder does with
//! files. None of it allocates, but where that is said.
//!
//! **Every system with `std`** that has [`Reserved`](crate::source::Reserved) memory and locks for threads
//! fulfils this:
//!
//! | | |
//! |---|---|
//! | `page_size` | bytes of an OS page, a power of two |
//! | `map_lazily`, `unmap`, `Backed` | zeros; only what is touched takes memory, or what was reached |
//! | `write`, `stop`, `abort` | a line on standard error, with it the end of the process, that alone |
//! | `at_fork` | handlers before and after a fork |
//!
//! wasm32 has no more of that than reserved memory needs; and `grow`, pages that are never given back.
//!
//! **A system on which [`Pagewise`](crate::global::Pagewise) is an allocator of its own** fulfils this
//! besides; any of it may be refused, and no refusal may lose memory or decide what is a block:
//!
//! | | |
//! |---|---|
//! | `reserve`, `commit`, `release` | addresses without memory; memory for a part of them; neither any more |
//! | `addresses`, `is_free`, `map_at`, `reserve_at` | where a window of addresses may lie; memory, or addresses without, at an address and no other |
//! | `NEEDS_RESERVATION` | whether memory comes to an address that was reserved, and to no other |
//! | `allocate`, `allocate_populated`, `remap` | mappings of their own, longer or shorter |
//! | `MOVES`, `move_into` | whether mappings move to addresses that are asked for, and how |
//! | `guard`, `close`, `forbid_writes` | pages that nobody may touch, with their memory or without; or not write to |
//! | `discard`, `DISCARDED_ARE_ZEROS` | memory goes back, its addresses stay; whether they read as zeros then |
//! | `discard_all`, `discards_many` | several runs of it by one call; whether the system does that, as far as is known |
//! | `advise_huge_pages`, `backs_all_with_huge_pages` | tells the system whether huge pages are wanted here; whether it uses them unasked, and makes them later of memory that takes none |
//! | `for_each_resident`, `is_resident`, `is_readable` | which OS pages take memory, or can be read at all |
//! | `address_space_limit`, `cpus`, `cpu_quota` | bytes and processors that this process may use, and how much of their time |
//! | `node` | to which memory the calling thread's processor is near |
//! | `wait`, `wait_for`, `wake`, `wake_all` | sleep while a word has a value; the lock is made of it |
//! | `announce_barriers`, `others_pass_barrier` | has all other threads pass a memory barrier |
//! | `at_thread_end`, `at_exit` | a function called when a thread ends, or the process does |
//! | `variable`, `for_each_variable` | the environment, read without allocating |
//! | `on_fault`, `return_addresses`, `origin` | who touches inaccessible memory, and where a thread is; the second may allocate |
//! | `File`, `on_signal`, `process` | on Linux: files without allocating, what is done on a signal, the process's number |
//! | `random` | a number nobody can foretell |
//! | `now`, `thread_time`, `pause` | a clock that never goes back; the calling thread's processor time, to measure how long something takes; a moment for others |
//! | `thread_address`, `thread_id`, `KeepErrno` | an address that only the calling thread has, 512 bytes or more from any other thread's; its number; restores its `errno` |
//! | `start_thread`, `join_thread` | a thread of our own, deaf to signals; allocates |
//! | `standard_error`, `has_terminal` | which file standard error is, and whether it is a terminal |
//! | `is_privileged` | whether the environment is that of a user with fewer rights |

#[cfg(all(test, not(miri), not(target_family = "wasm")))]
pub(crate) mod alone;
#[cfg(all(
    any(
        target_os = "macos",
        target_os = "freebsd",
        all(target_os = "linux", pagewise_portable_os)
    ),
    not(pagewise_forwarding)
))]
mod bsd;
#[cfg(all(target_os = "freebsd", not(pagewise_forwarding)))]
mod freebsd;
#[cfg(all(target_os = "linux", not(pagewise_forwarding)))]
mod linux;
#[cfg(all(target_os = "macos", not(pagewise_forwarding)))]
mod macos;
#[cfg(all(
    any(target_os = "linux", target_os = "macos", target_os = "freebsd"),
    not(pagewise_forwarding)
))]
mod posix;
#[cfg(all(
    any(
        windows,
        target_os = "macos",
        target_os = "freebsd",
        all(target_os = "linux", any(miri, pagewise_portable_os))
    ),
    not(pagewise_forwarding)
))]
mod unbarred;
#[cfg(unix)]
mod unix;
#[cfg(all(
    any(
        windows,
        target_os = "macos",
        target_os = "freebsd",
        all(target_os = "linux", any(miri, pagewise_portable_os))
    ),
    not(pagewise_forwarding)
))]
mod unmoved;
#[cfg(all(target_arch = "wasm32", not(unix)))]
mod wasm;
#[cfg(any(unix, target_arch = "wasm32"))]
mod whole;
#[cfg(windows)]
#[cfg_attr(pagewise_forwarding, allow(dead_code, reason = "the other contract is for nobody then"))]
mod windows;

#[cfg(all(
    any(
        target_os = "macos",
        target_os = "freebsd",
        all(target_os = "linux", pagewise_portable_os)
    ),
    not(pagewise_forwarding)
))]
pub(crate) use bsd::*;
#[cfg(all(target_os = "freebsd", not(pagewise_forwarding)))]
pub(crate) use freebsd::*;
#[cfg(all(target_os = "linux", not(pagewise_forwarding)))]
pub(crate) use linux::*;
#[cfg(all(target_os = "macos", not(pagewise_forwarding)))]
pub(crate) use macos::*;
#[cfg(all(
    any(target_os = "linux", target_os = "macos", target_os = "freebsd"),
    not(pagewise_forwarding)
))]
pub(crate) use posix::*;
#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(all(target_arch = "wasm32", not(unix)))]
pub(crate) use wasm::*;
#[cfg(any(unix, target_arch = "wasm32"))]
pub(crate) use whole::*;
#[cfg(windows)]
pub(crate) use windows::*;
#[cfg(all(
    any(
        windows,
        target_os = "macos",
        target_os = "freebsd",
        all(target_os = "linux", any(miri, pagewise_portable_os))
    ),
    not(pagewise_forwarding)
))]
pub(crate) use {unbarred::*, unmoved::*};

/// Gives the memory of whole OS pages back, which read as zeros then; whether that could be done.
///
/// # Safety
/// Nothing in the pages is used any more.
#[cfg(all(
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
    not(pagewise_forwarding)
))]
pub(crate) unsafe fn discard_to_zeros(start: *mut u8, len: usize) -> bool {
    // SAFETY: passed on.
    DISCARDED_ARE_ZEROS && unsafe { discard(start, len) }
}

/// OS pages that follow each other, laid out as Linux reads them.
#[cfg(all(
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
    not(pagewise_forwarding)
))]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Run {
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
}
