//! The calls for memory that the allocator makes of C's library, which this program answers itself: one
//! of them fails, as in a sandbox or where memory is short.

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_uchar, c_void};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};

/// Calls of the allocator's so far.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// The kinds of the first calls: `true` for a purge's queries, which come by the thousand.
static OFTEN: [AtomicBool; 1 << 13] = [const { AtomicBool::new(false) }; 1 << 13];

/// Calls refused so far.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// The numbers of the first call that is refused, and of the first behind it that is not.
static FIRST: AtomicUsize = AtomicUsize::new(usize::MAX);
static END: AtomicUsize = AtomicUsize::new(usize::MAX);

thread_local! {
    /// Whether this thread is in the allocator. Requests of Rust's library are not the allocator's.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Refuses the allocator's calls with these numbers, from 0 on.
pub(crate) fn refuse(calls: std::ops::Range<usize>) {
    FIRST.store(calls.start, Relaxed);
    END.store(calls.end, Relaxed);
}

/// Calls refused so far.
pub(crate) fn refused() -> usize {
    REFUSED.load(Relaxed)
}

/// Returns the numbers of the calls so far that are rare ones, and one in `stride` of the others.
pub(crate) fn chosen(stride: usize) -> impl Iterator<Item = usize> {
    let often = OFTEN.iter().take(MADE.load(Relaxed)).enumerate();
    often
        .filter(move |(call, often)| call.is_multiple_of(stride) || !often.load(Relaxed))
        .map(|(call, _)| call)
}

/// Does something within the allocator; whether a call was refused meanwhile.
pub(crate) fn inside<R>(act: impl FnOnce() -> R) -> (R, bool) {
    let before = REFUSED.load(Relaxed);
    INSIDE.set(true);
    let done = act();
    INSIDE.set(false);
    (done, REFUSED.load(Relaxed) > before)
}

/// Returns whether a call is refused, with this error.
fn is_refused(call: c_long, error: c_int) -> bool {
    if !INSIDE.get() {
        return false;
    }
    let often = [libc::SYS_madvise, libc::SYS_process_madvise, libc::SYS_mincore].contains(&call);
    let call = MADE.fetch_add(1, Relaxed);
    OFTEN[call].store(often, Relaxed);
    let refused = (FIRST.load(Relaxed)..END.load(Relaxed)).contains(&call);
    if refused {
        REFUSED.fetch_add(1, Relaxed);
        // SAFETY: the location is the calling thread's own.
        unsafe { *libc::__errno_location() = error };
    }
    refused
}

/// Defines functions of C's library: the kernel's call of the same name, or a refusal.
macro_rules! calls {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $call:ident, $error:ident;)*) => {$(
        /// As in C.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            if is_refused(libc::$call, libc::$error) {
                return -1 as c_long as $result;
            }
            // SAFETY: the caller guarantees it.
            unsafe { libc::syscall(libc::$call, $($argument),*) as $result }
        }
    )*};
}

// Of `mincore` and `msync` ENOMEM is no refusal but an answer: there is no memory.
calls! {
    mmap(at: *mut c_void, len: usize, protection: c_int, flags: c_int, file: c_int, offset: i64)
        -> *mut c_void, SYS_mmap, ENOMEM;
    munmap(at: *mut c_void, len: usize) -> c_int, SYS_munmap, ENOMEM;
    mprotect(at: *mut c_void, len: usize, protection: c_int) -> c_int, SYS_mprotect, ENOMEM;
    madvise(at: *mut c_void, len: usize, advice: c_int) -> c_int, SYS_madvise, ENOMEM;
    mremap(at: *mut c_void, len: usize, new_len: usize, flags: c_int, new: *mut c_void)
        -> *mut c_void, SYS_mremap, ENOMEM;
    mincore(at: *mut c_void, len: usize, states: *mut c_uchar) -> c_int, SYS_mincore, EPERM;
    msync(at: *mut c_void, len: usize, flags: c_int) -> c_int, SYS_msync, EPERM;
    getrlimit(resource: c_int, limit: *mut libc::rlimit) -> c_int, SYS_getrlimit, EPERM;
    sched_getaffinity(process: c_int, bytes: usize, set: *mut c_void) -> c_int, SYS_sched_getaffinity, EPERM;
}

type Syscall =
    unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;

/// C's own, once it was looked up.
static SYSCALL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

fn own_syscall() -> Syscall {
    let mut own = SYSCALL.load(Relaxed);
    // SAFETY: the name is that of a function of this type, as far as its arguments are words.
    unsafe {
        if own.is_null() {
            own = libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr());
            assert!(!own.is_null(), "C's library has it");
            SYSCALL.store(own, Relaxed);
        }
        std::mem::transmute::<*mut c_void, Syscall>(own)
    }
}

/// As in C, for all calls that have no function there. That which gives several runs of memory back is refused now by an error,
/// now in part: the first half of the runs go back.
///
/// # Safety
/// As in C, where it takes as many arguments as the call has.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn syscall(
    call: c_long,
    first: c_long,
    second: c_long,
    mut third: c_long,
    fourth: c_long,
    fifth: c_long,
    sixth: c_long,
) -> c_long {
    if call == libc::SYS_process_madvise && is_refused(call, libc::EAGAIN) {
        if MADE.load(Relaxed).is_multiple_of(2) {
            return -1;
        }
        third /= 2;
    }
    // SAFETY: the caller passes valid arguments; the kernel ignores those beyond the call's own.
    unsafe { own_syscall()(call, first, second, third, fourth, fifth, sixth) }
}
