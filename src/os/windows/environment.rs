//! Reads the environment without allocating from the process heap, which this allocator may be.

use core::ffi::CStr;

use windows_sys::Win32::System::Environment::{
    FreeEnvironmentStringsW, GetEnvironmentStringsW, GetEnvironmentVariableA,
};

/// Calls `read` with the value of the variable `name`, if it exists and has at most 1,023 bytes.
pub(crate) fn variable<R>(name: &CStr, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
    let mut value = [0; 1024];
    // SAFETY: the name is a C string, and the call writes at most the buffer's length.
    let len = unsafe {
        GetEnvironmentVariableA(name.as_ptr().cast(), value.as_mut_ptr(), value.len() as u32)
    };
    // For a longer value the call returns the length that it needs, which is out of range here.
    value.get(..len as usize).filter(|value| !value.is_empty()).map(read)
}

/// Calls `visit` with the first 64 characters of each variable's name; other characters than ASCII
/// become question marks.
pub(crate) fn for_each_variable(mut visit: impl FnMut(&[u8])) {
    // SAFETY: null, or zero-terminated strings with an empty one at the end; they are freed once.
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
