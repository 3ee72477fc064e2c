//! The functions the recorder passes on to: the next of each name after this library's own.
//!
//! They are found by `dlsym`, at the first allocation of the process, long before `main`; and
//! `dlsym` may allocate. Such *bootstrap* blocks come from a small fixed buffer. They belong to
//! the loader, live as long as the process, and are not recorded.
//!
//! A recorder that was loaded into a running process is told the functions: threads may come here at the
//! same time, and none can wait.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_void};
use core::mem::{self, MaybeUninit};
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

use pagewise_trace::raw::{self, FUNCTIONS};

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
type Memalign = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type DlClose = unsafe extern "C" fn(*mut c_void) -> c_int;
type UsableSize = unsafe extern "C" fn(*mut c_void) -> usize;

/// The real functions. A C library without the traditional ones lacks them here, too. In the order of
/// [`FUNCTIONS`], as words of their addresses: a request has them so.
#[repr(C)]
pub(crate) struct Real {
    pub(crate) malloc: Malloc,
    pub(crate) calloc: Calloc,
    pub(crate) realloc: Realloc,
    pub(crate) free: Free,
    pub(crate) posix_memalign: Option<PosixMemalign>,
    pub(crate) aligned_alloc: Option<Memalign>,
    pub(crate) memalign: Option<Memalign>,
    pub(crate) valloc: Option<Malloc>,
    pub(crate) pvalloc: Option<Malloc>,
    pub(crate) malloc_usable_size: Option<UsableSize>,
    pub(crate) dlclose: Option<DlClose>,
}

/// A value written once, by whoever moves [`REAL`] from null to [`FINDING`].
struct Once(UnsafeCell<MaybeUninit<Real>>);

// SAFETY: the value is written by one thread, before it is published, and only read after.
unsafe impl Sync for Once {}

static FOUND: Once = Once(UnsafeCell::new(MaybeUninit::uninit()));

/// Null: not looked for yet.
static REAL: AtomicPtr<Real> = AtomicPtr::new(ptr::null_mut());
const FINDING: *mut Real = ptr::without_provenance_mut(1);

/// The real functions; `None` while they are being found: by this thread, which has come here
/// again through `dlsym`, or by another.
#[inline]
pub(crate) fn real() -> Option<&'static Real> {
    let mut real = REAL.load(Acquire);
    if real.addr() <= FINDING.addr() {
        real = find_once();
    }
    // SAFETY: what is published was written, and is not changed any more.
    (real != FINDING).then(|| unsafe { &*real })
}

/// Finds the functions, and gives them, or `FINDING`.
#[cold]
fn find_once() -> *mut Real {
    if let Some(real) = told() {
        REAL.store(real, Release);
        return real;
    }
    if let Err(found) = REAL.compare_exchange(ptr::null_mut(), FINDING, Acquire, Acquire) {
        return found;
    }
    let real = FOUND.0.get().cast::<Real>();
    // SAFETY: nobody else gets here, and nobody reads before it is published. The types are those of
    // the functions of these names; of the last, only the address is taken on.
    unsafe {
        real.write(find());
        crate::stack::look(next(c"_dl_find_object"));
    }
    REAL.store(real, Release);
    real
}

/// The functions that the recorder was told, if it was loaded into a running process. Any number of
/// threads may do this at the same time.
fn told() -> Option<*mut Real> {
    let functions = raw::arm(|at| pagewise_record_request[at].load(Relaxed))?;
    if functions[..4].contains(&0) {
        return None;
    }
    let find_object = ptr::with_exposed_provenance_mut(functions[FUNCTIONS.len() - 1] as usize);
    // SAFETY: whoever made the request found the function of that name; only its address is taken on.
    crate::stack::look(unsafe { function(find_object) });
    // The words of the addresses, none of the first four 0, are the functions. They were written before
    // the first call came here.
    Some((&raw const pagewise_record_request[1]).cast::<Real>().cast_mut())
}

/// What a recorder is told that was loaded into a running process: a [`Request`](raw::Request).
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a name of the C world")]
pub(crate) static pagewise_record_request: [AtomicU64; raw::WORDS] =
    [const { AtomicU64::new(0) }; raw::WORDS];

/// # Safety
/// Sound on any system that gives functions of these names the types of POSIX and GNU.
unsafe fn find() -> Real {
    // SAFETY: the caller's promise. The first four belong to every C library, and the loader finds
    // them wherever it found this one's callers'.
    unsafe {
        Real {
            malloc: must(next(c"malloc")),
            calloc: must(next(c"calloc")),
            realloc: must(next(c"realloc")),
            free: must(next(c"free")),
            posix_memalign: next(c"posix_memalign"),
            aligned_alloc: next(c"aligned_alloc"),
            memalign: next(c"memalign"),
            valloc: next(c"valloc"),
            pvalloc: next(c"pvalloc"),
            malloc_usable_size: next(c"malloc_usable_size"),
            dlclose: next(c"dlclose"),
        }
    }
}

/// The next function of that name.
///
/// # Safety
/// `F` is the type of a pointer to that function.
unsafe fn next<F>(name: &CStr) -> Option<F> {
    // SAFETY: the name is a C string; the caller's promise.
    unsafe { function(libc::dlsym(libc::RTLD_NEXT, name.as_ptr())) }
}

/// The function at an address, if there is one.
///
/// # Safety
/// `F` is the type of a pointer to that function.
unsafe fn function<F>(symbol: *mut c_void) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the symbol is the function, of type `F`, by the caller's promise.
    (!symbol.is_null()).then(|| unsafe { mem::transmute_copy(&symbol) })
}

/// Ends the process with a clear line if there is no such function: there is nothing to pass on
/// to.
fn must<F>(function: Option<F>) -> F {
    function.unwrap_or_else(|| {
        let message = b"pagewise: the recorder found no malloc to pass on to\n";
        // SAFETY: the message is valid for reads of its length; `abort` does not return.
        unsafe {
            libc::write(2, message.as_ptr().cast(), message.len());
            libc::abort()
        }
    })
}

/// Memory for bootstrap blocks; each has its length in the 16 bytes before it.
#[repr(align(16))]
struct Buffer(UnsafeCell<[u8; BUFFER]>);

const BUFFER: usize = 16 << 10;
const HEADER: usize = 16;

// SAFETY: every byte belongs to at most one block: `bootstrap` claims it by an atomic addition.
unsafe impl Sync for Buffer {}

static BUFFER_BYTES: Buffer = Buffer(UnsafeCell::new([0; BUFFER]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// A bootstrap block of `size` bytes, filled with zeros; null if the buffer is spent.
pub(crate) fn bootstrap(size: usize) -> *mut c_void {
    let Some(len) = size.checked_next_multiple_of(HEADER).filter(|&len| len < BUFFER) else {
        return ptr::null_mut();
    };
    let start = USED.fetch_add(HEADER + len, Relaxed);
    if start > BUFFER - HEADER - len {
        // The claim stays: the buffer is spent.
        return ptr::null_mut();
    }
    // SAFETY: the claimed bytes lie within the buffer, aligned to 16 bytes, and are ours alone.
    unsafe {
        let header = BUFFER_BYTES.0.get().cast::<u8>().add(start);
        header.cast::<usize>().write(size);
        header.add(HEADER).cast()
    }
}

/// Whether the block is a bootstrap block.
#[inline]
pub(crate) fn is_bootstrap(block: *mut c_void) -> bool {
    block.addr().wrapping_sub(BUFFER_BYTES.0.get().addr()) < BUFFER
}

/// Length of a bootstrap block.
pub(crate) fn bootstrap_len(block: *mut c_void) -> usize {
    debug_assert!(is_bootstrap(block));
    // SAFETY: a bootstrap block has its length before it.
    unsafe { block.cast::<u8>().sub(HEADER).cast::<usize>().read() }
}
