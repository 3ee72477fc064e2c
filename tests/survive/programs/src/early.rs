//! Code that runs before any library's constructor (`.preinit_array`), hence before any allocator
//! registers its own handlers and keys.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

type Initialiser = extern "C" fn(c_int, *const *const c_char, *const *const c_char);

#[used]
#[unsafe(link_section = ".preinit_array")]
static EARLY: Initialiser = early;

/// Keys created by the program.
pub(crate) static KEYS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn early(count: c_int, arguments: *const *const c_char, _: *const *const c_char) {
    if count < 3 {
        return;
    }
    // SAFETY: there are that many arguments, each a C string.
    let name = unsafe { CStr::from_ptr(*arguments.add(2)) };
    match name.to_bytes() {
        b"fork-handler" => {
            // SAFETY: the handlers have the right type.
            unsafe { libc::pthread_atfork(Some(allocates), Some(allocates), Some(allocates)) };
        }
        b"keys-many" => make_keys(1000),
        b"keys-all" => make_keys(usize::MAX),
        _ => {}
    }
}

/// A fork handler that allocates small and large blocks.
unsafe extern "C" fn allocates() {
    // SAFETY: blocks are freed once.
    unsafe {
        for size in [40, 3000, 40_000, 900_000] {
            let block = black_box(libc::malloc(size));
            if block.is_null() {
                libc::abort();
            }
            libc::memset(block, 1, size);
            libc::free(block);
        }
    }
}

/// Creates up to `most` thread-specific keys.
fn make_keys(most: usize) {
    unsafe extern "C" fn nothing(_: *mut c_void) {}
    for _ in 0..most {
        let mut key = 0;
        // SAFETY: the key is valid for writes.
        if unsafe { libc::pthread_key_create(&mut key, Some(nothing)) } != 0 {
            break;
        }
        KEYS.fetch_add(1, Ordering::Relaxed);
    }
}
