//! This program defines the C library functions with which the allocator asks for memory, and makes
//! one call fail, as in a sandbox or when memory is short.

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_uchar, c_void};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};

/// Number of the allocator's calls so far.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// The kinds of the first calls: `true` for the queries of a purge, which makes thousands.
static OFTEN: [AtomicBool; 1 << 13] = [const { AtomicBool::new(false) }; 1 << 13];

/// Number of refused calls so far.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// The number of the first refused call, and of the first one after the refused range.
static FIRST: AtomicUsize = AtomicUsize::new(usize::MAX);
static END: AtomicUsize = AtomicUsize::new(usize::MAX);

thread_local! {
    /// Whether this thread is in the allocator. Calls of the standard library do not count.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Refuses the allocator's calls with these numbers, counted from 0.
pub(crate) fn refuse(calls: std::ops::Range<usize>) {
    FIRST.store(calls.start, Relaxed);
    END.store(calls.end, Relaxed);
}

/// Returns the number of refused calls so far.
pub(crate) fn refused() -> usize {
    REFUSED.load(Relaxed)
}

/// Returns the numbers of all rare calls so far, and of one in `stride` of the others.
pub(crate) fn chosen(stride: usize) -> impl Iterator<Item = usize> {
    let often = OFTEN.iter().take(MADE.load(Relaxed)).enumerate();
    often
        .filter(move |(call, often)| call.is_multiple_of(stride) || !often.load(Relaxed))
        .map(|(call, _)| call)
}

/// Runs `act` as the allocator's code; also returns whether a call was refused meanwhile.
pub(crate) fn inside<R>(act: impl FnOnce() -> R) -> (R, bool) {
    let before = REFUSED.load(Relaxed);
    INSIDE.set(true);
    let done = act();
    INSIDE.set(false);
    (done, REFUSED.load(Relaxed) > before)
}

/// Returns whether this call is refused, and sets the error if so.
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

/// Defines functions of the C library: each makes the system call of the same name, or fails.
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

// For `mincore` and `msync`, ENOMEM is an answer, not a failure: there is no memory.
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

/// The C library's function, once looked up.
static SYSCALL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

fn own_syscall() -> Syscall {
    let mut own = SYSCALL.load(Relaxed);
    // SAFETY: the function of this name has this type, as far as its arguments are words.
    unsafe {
        if own.is_null() {
            own = libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr());
            assert!(!own.is_null(), "C's library has it");
            SYSCALL.store(own, Relaxed);
        }
        std::mem::transmute::<*mut c_void, Syscall>(own)
    }
}

/// As in C, for calls without a function of their own. The call that gives several runs of memory
/// back is refused alternately by an error and in part: the first half of the runs go back.
///
/// # Safety
/// As in C, with as many arguments as the call has.
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
