//! Libraries that the program opens: line 13.

use std::ffi::{CStr, c_void};
use std::mem;

use crate::outcome::Outcome;

/// Opens a library with a flag, by its name alone, so that the loader finds it through the
/// program's own run path. Blocks pass from the program to the library, and back.
pub(crate) fn bound_to_itself() -> Outcome {
    match opened(c"libextension.so", libc::RTLD_NOW | libc::RTLD_DEEPBIND) {
        Ok(extension) => extension.exchange(),
        Err(missing) => return Outcome::Fails(format!("no {missing}")),
    }
    Outcome::Survived
}

/// The library's functions.
struct Extension {
    give: extern "C" fn(usize) -> *mut c_void,
    take: unsafe extern "C" fn(*mut c_void),
}

fn opened(name: &CStr, flags: i32) -> Result<Extension, &'static str> {
    // SAFETY: names are NUL-terminated; the types are those of the library's functions.
    unsafe {
        let library = libc::dlopen(name.as_ptr(), flags);
        if library.is_null() {
            return Err("library");
        }
        let (give, take) =
            (libc::dlsym(library, c"give".as_ptr()), libc::dlsym(library, c"take".as_ptr()));
        if give.is_null() || take.is_null() {
            return Err("function");
        }
        Ok(Extension { give: mem::transmute(give), take: mem::transmute(take) })
    }
}

impl Extension {
    fn exchange(&self) {
        for size in (0..300_000).step_by(977) {
            // SAFETY: each block is freed once, and written to within its size.
            unsafe {
                let theirs = (self.give)(size);
                theirs.write_bytes(1, size);
                let theirs = libc::realloc(theirs, 2 * size + 1);
                let ours = libc::malloc(size);
                ours.write_bytes(2, size);
                (self.take)(ours);
                libc::free(theirs);
            }
        }
    }
}
