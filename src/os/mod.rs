//! The operating system. The library makes all its system calls here, except for the files that a
//! recorder writes. Nothing here allocates unless its description says so.
//!
//! **Every system with `std`** that has [`Reserved`](crate::source::Reserved) memory and locks for
//! threads provides:
//!
//! | | |
//! |---|---|
//! | `page_size` | bytes of an OS page, a power of two |
//! | `map_lazily`, `unmap`, `Backed` | a mapping of zeros whose pages take memory only once touched, or once `Backed` has reached them |
//! | `write`, `stop`, `abort` | writes a line on standard error; writes one and ends the process; ends the process |
//! | `at_fork` | handlers before and after a fork |
//!
//! wasm32 provides only what reserved memory needs, and `grow`: pages that are never given back.
//!
//! **A system on which [`Pagewise`](crate::global::Pagewise) is an allocator of its own** also
//! provides the following. The system may refuse any of it; a refusal must never lose memory, nor
//! decide whether an address is a block:
//!
//! | | |
//! |---|---|
//! | `reserve`, `commit`, `release` | reserves addresses without memory; makes a part of them accessible; gives back both |
//! | `addresses`, `is_free`, `map_at`, `reserve_at` | where a window of addresses may start; memory, or addresses without memory, at exactly a given address |
//! | `NEEDS_RESERVATION` | whether `map_at` works only at addresses that were reserved |
//! | `allocate`, `remap` | separate mappings, made longer or shorter |
//! | `MOVES`, `movable`, `move_into` | whether mappings can move to a given address; how much of one can; moves it into a reservation |
//! | `guard`, `close`, `forbid_writes` | makes pages inaccessible, keeping their memory or giving it back; makes pages read-only |
//! | `discard`, `DISCARDED_ARE_ZEROS` | gives back memory and keeps its addresses; whether the pages then read as zeros |
//! | `discard_all`, `discards_many` | gives back several runs by one call; whether that may work |
//! | `may_keep`, `restore` | on Linux: undo what a program set on the pages of its block, before these are kept, and before another block gets them |
//! | `advise_huge_pages`, `ADVISES_HUGE_PAGES`, `backs_all_with_huge_pages` | tells the system whether to use huge pages; whether it takes such advice; whether it uses them unasked, and builds them from pages that take no memory |
//! | `for_each_resident`, `is_resident`, `is_readable` | which OS pages are resident, or readable at all |
//! | `address_space_limit`, `cpus`, `cpu_quota` | bytes and processors that this process may use, and its share of processor time |
//! | `node` | the NUMA node of the calling thread's processor |
//! | `wait`, `wait_for`, `wake`, `wake_all` | sleep while a word has a value; the lock is built on them |
//! | `announce_barriers`, `others_pass_barrier` | has all other threads pass a memory barrier |
//! | `prepare_thread_end`, `at_thread_end`, `at_exit` | called once before `at_thread_end`; calls a function when a thread ends, or when the process exits |
//! | `variable`, `for_each_variable` | the environment, read without allocating |
//! | `on_fault`, `return_addresses`, `origin` | reports faults; a thread's call stack (may allocate); the file and function of a code address |
//! | `File`, `on_signal` | Linux only: files without allocating, signal handlers |
//! | `process` | the process's number; 0 if no child has a copy of its memory |
//! | `is_single_threaded` | whether the calling thread is the only one; false if that is not certain |
//! | `random` | an unpredictable number |
//! | `now`, `since_1970`, `thread_time`, `pause` | a monotonic clock; the time of day (Linux only); the calling thread's processor time, to measure durations; a short sleep that lets other threads run |
//! | `thread_address`, `thread_id`, `KeepErrno` | an address of the calling thread alone, at least 512 bytes from any other thread's; its number; restores its `errno` |
//! | `Uncancelled`, `return_addresses_beyond` | on Unix: keeps the calling thread from being cancelled while it waits; its call stack without the innermost functions |
//! | `Unsignalled` | on Unix: keeps a write that fails from sending the calling thread a signal |
//! | `start_thread`, `join_thread` | a thread of our own with all signals blocked; allocates |
//! | `is_last_thread`, `start_successor` | whether no other thread still runs, false if that is not certain; a thread that ends after such a thread of ours |
//! | `standard_error`, `has_terminal` | identifies the file that standard error is; whether it is a terminal |
//! | `is_privileged` | whether the environment comes from a user with fewer rights |

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
mod unsupported;
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
#[cfg(all(
    any(
        windows,
        target_os = "macos",
        target_os = "freebsd",
        all(target_os = "linux", any(miri, pagewise_portable_os))
    ),
    not(pagewise_forwarding)
))]
pub(crate) use unsupported::*;
#[cfg(all(target_arch = "wasm32", not(unix)))]
pub(crate) use wasm::*;
#[cfg(any(unix, target_arch = "wasm32"))]
pub(crate) use whole::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// CPUs, one bit for each.
#[cfg(all(
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
    not(pagewise_forwarding)
))]
pub(crate) type CpuSet = [usize; 16];

/// The set of no CPUs.
#[cfg(all(
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
    not(pagewise_forwarding)
))]
pub(crate) const NO_CPUS: CpuSet = [0; 16];

/// Gives back the memory of whole OS pages if they then read as zeros. Returns whether it did.
///
/// # Safety
/// The contents of the pages are no longer used.
#[cfg(all(
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
    not(pagewise_forwarding)
))]
pub(crate) unsafe fn discard_to_zeros(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller guarantees what `discard` requires.
    DISCARDED_ARE_ZEROS && unsafe { discard(start, len) }
}

/// A run of consecutive OS pages, laid out like Linux's `iovec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct OsPageRun {
    /// Where the first one starts.
    pub(crate) start: *mut u8,
    /// Their bytes.
    pub(crate) len: usize,
}

impl OsPageRun {
    /// Returns the address behind the last one.
    pub(crate) fn end(self) -> *mut u8 {
        self.start.wrapping_add(self.len)
    }
}
