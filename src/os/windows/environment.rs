//! The environment, read without allocating from the heap that we may be.

use core::ffi::CStr;

use windows_sys::Win32::System::Environment::{
    FreeEnvironmentStringsW, GetEnvironmentStringsW, GetEnvironmentVariableA,
};

/// Calls `read` with a variable's value, if there is such a variable, of at most 1,023 bytes.
pub(crate) fn variable<R>(name: &CStr, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
    let mut value = [0; 1024];
    // SAFETY: the name is a string of C's, and the call writes no more than the buffer's bytes.
    let len = unsafe {
        GetEnvironmentVariableA(name.as_ptr().cast(), value.as_mut_ptr(), value.len() as u32)
    };
    // Of a longer one, the length that it needs is told.
    value.get(..len as usize).filter(|value| !value.is_empty()).map(read)
}

/// Calls `visit` with the name of each variable, as far as 64 characters; what is no ASCII is a question mark.
pub(crate) fn for_each_variable(mut visit: impl FnMut(&[u8])) {
    // SAFETY: null, or strings that end in a zero each, an empty one behind the last; they are given back once.
    unsafe {
        let all = GetEnvironmentStringsW();
        let mut next = all.cast_const();
        while !next.is_null() && *next != 0 {
            let (mut name, mut len, mut ended) = ([0; 64], 0, false);
            while *next != 0 {
                ended |= *next == u16::from(b'=') && len > 0;
                if let Some(byte) = name.get_mut(len).filter(|_| !ended) {
                    *byte = u8::try_from(*next).ok().filter(u8::is_ascii).unwrap_or(b'?');
                    len += 1;
                }
                next = next.add(1);
            }
            visit(&name[..len]);
            next = next.add(1);
        }
        if !all.is_null() {
            FreeEnvironmentStringsW(all);
        }
    }
}
