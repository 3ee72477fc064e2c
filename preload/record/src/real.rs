//! Finds the functions that the recorder forwards to: the next one of each name after this
//! library's own.
//!
//! `dlsym` finds them at the first allocation of the process, long before `main`. `dlsym` itself
//! may allocate; such *bootstrap* blocks come from a small fixed buffer. They belong to the loader,
//! live as long as the process, and are not recorded.
//!
//! A recorder that is loaded into a running process gets the functions with its request: several
//! threads may get here at the same time, and none of them can wait.

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

/// The real functions. Functions that the C library lacks are `None`. The order is that of
/// [`FUNCTIONS`], and each field is one word, because a request contains the addresses in that
/// form.
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

/// A value that is written once, by the thread that changes [`REAL`] from null to [`FINDING`].
struct Once(UnsafeCell<MaybeUninit<Real>>);

// SAFETY: one thread writes the value before it is published; after that it is only read.
unsafe impl Sync for Once {}

static FOUND: Once = Once(UnsafeCell::new(MaybeUninit::uninit()));

/// The real functions; null if they have not been looked up yet.
static REAL: AtomicPtr<Real> = AtomicPtr::new(ptr::null_mut());
const FINDING: *mut Real = ptr::without_provenance_mut(1);

/// Returns the real functions; `None` while a thread is finding them: this one, which gets here
/// again through `dlsym`, or another.
#[inline]
pub(crate) fn real() -> Option<&'static Real> {
    let mut real = REAL.load(Acquire);
    if real.addr() <= FINDING.addr() {
        real = find_once();
    }
    // SAFETY: a published value was written before, and does not change afterwards.
    (real != FINDING).then(|| unsafe { &*real })
}

/// Finds the functions and returns them, or `FINDING` if a thread is finding them already.
#[cold]
fn find_once() -> *mut Real {
    if let Some(real) = requested() {
        REAL.store(real, Release);
        return real;
    }
    if let Err(found) = REAL.compare_exchange(ptr::null_mut(), FINDING, Acquire, Acquire) {
        return found;
    }
    let real = FOUND.0.get().cast::<Real>();
    // SAFETY: only one thread gets here, and no thread reads the value before it is published.
    // Functions of these names have these types; of `_dl_find_object` only the address is used.
    unsafe {
        real.write(find());
        crate::stack::look(next(c"_dl_find_object"));
    }
    REAL.store(real, Release);
    real
}

/// Returns the functions of the request, if the recorder was loaded into a running process. Threads
/// may call this at the same time.
fn requested() -> Option<*mut Real> {
    let functions = raw::arm(|at| pagewise_record_request[at].load(Relaxed))?;
    if functions[..4].contains(&0) {
        return None;
    }
    let find_object = ptr::with_exposed_provenance_mut(functions[FUNCTIONS.len() - 1] as usize);
    // SAFETY: the requester found the function of that name; only its address is used.
    crate::stack::look(unsafe { function(find_object) });
    // The words of the request have the layout of `Real`, and none of the first four is 0. They
    // were written before the first call got here.
    Some((&raw const pagewise_record_request[1]).cast::<Real>().cast_mut())
}

/// The [`Request`](raw::Request) to a recorder that was loaded into a running process.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a name of the C world")]
pub(crate) static pagewise_record_request: [AtomicU64; raw::WORDS] =
    [const { AtomicU64::new(0) }; raw::WORDS];

/// # Safety
/// On this system, functions of these names must have the types that POSIX and GNU give them.
unsafe fn find() -> Real {
    // SAFETY: the caller guarantees the types. Every C library has the first four functions, and
    // the loader finds them where it finds those of this library's callers.
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

/// Returns the next function called `name`.
///
/// # Safety
/// `F` is the pointer type of that function.
unsafe fn next<F>(name: &CStr) -> Option<F> {
    // SAFETY: the name is a C string, and the caller guarantees that `F` is its function's type.
    unsafe { function(libc::dlsym(libc::RTLD_NEXT, name.as_ptr())) }
}

/// Returns the function at an address; `None` if it is null.
///
/// # Safety
/// `F` is the pointer type of that function.
unsafe fn function<F>(symbol: *mut c_void) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the caller guarantees that the symbol is a function of type `F`.
    (!symbol.is_null()).then(|| unsafe { mem::transmute_copy(&symbol) })
}

/// Returns the function. Aborts the process with a message if there is none, since then there is
/// nothing to forward to.
fn must<F>(function: Option<F>) -> F {
    function.unwrap_or_else(|| {
        let message = b"pagewise: the recorder found no malloc to pass on to\n";
        // SAFETY: the pointer is valid for reads of `message.len()` bytes; `abort` does not return.
        unsafe {
            libc::write(2, message.as_ptr().cast(), message.len());
            libc::abort()
        }
    })
}

/// The memory of bootstrap blocks. Each block's length is in the 16 bytes before it.
#[repr(align(16))]
struct Buffer(UnsafeCell<[u8; BUFFER]>);

const BUFFER: usize = 16 << 10;
const HEADER: usize = 16;

// SAFETY: `bootstrap` claims bytes with an atomic addition, so each byte belongs to at most one
// block.
unsafe impl Sync for Buffer {}

static BUFFER_BYTES: Buffer = Buffer(UnsafeCell::new([0; BUFFER]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// Returns a bootstrap block of `size` zeros; null if the buffer is used up.
pub(crate) fn bootstrap(size: usize) -> *mut c_void {
    let Some(len) = size.checked_next_multiple_of(HEADER).filter(|&len| len < BUFFER) else {
        return ptr::null_mut();
    };
    let start = USED.fetch_add(HEADER + len, Relaxed);
    if start > BUFFER - HEADER - len {
        // The claim is not taken back: the buffer counts as used up.
        return ptr::null_mut();
    }
    // SAFETY: the claimed bytes are within the buffer, aligned to 16 bytes, and belong to this call
    // alone.
    unsafe {
        let header = BUFFER_BYTES.0.get().cast::<u8>().add(start);
        header.cast::<usize>().write(size);
        header.add(HEADER).cast()
    }
}

/// Returns whether the block is a bootstrap block.
#[inline]
pub(crate) fn is_bootstrap(block: *mut c_void) -> bool {
    block.addr().wrapping_sub(BUFFER_BYTES.0.get().addr()) < BUFFER
}

/// Returns the length of a bootstrap block in bytes.
pub(crate) fn bootstrap_len(block: *mut c_void) -> usize {
    debug_assert!(is_bootstrap(block));
    // SAFETY: the length of a bootstrap block is stored in front of it.
    unsafe { block.cast::<u8>().sub(HEADER).cast::<usize>().read() }
}
