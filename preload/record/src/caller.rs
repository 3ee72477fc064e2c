//! The caller of an exported function: [`Caller`], and the macro that defines functions that record
//! it.

/// The caller's registers at the call.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Caller {
    /// The address of the return address.
    pub(crate) stack: u64,
    pub(crate) rbp: u64,
}

/// Empty: the walk finds the caller itself. (C has no empty structures.)
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Caller {
    _nothing: u8,
}

#[cfg(not(target_arch = "x86_64"))]
impl Caller {
    pub(crate) const FOUND_LATER: Self = Self { _nothing: 0 };
}

/// Defines a C function `$name` that forwards to `$told` with a [`Caller`] appended to the
/// arguments. `$stack` and `$rbp` are the registers in which the ABI passes the caller's two words.
#[cfg(target_arch = "x86_64")]
macro_rules! noting_its_caller {
    ($(#[$about:meta])* fn $name:ident($($argument:ident: $of:ty),*) -> $result:ty = $told:path
        [$stack:literal $rbp:literal]) => {
        $(#[$about])*
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name($($argument: $of),*) -> $result {
            // Nothing has changed since the call: `rsp` is the address of the return address, and
            // `rbp` is the caller's. A structure of two words is passed in two registers after the
            // other arguments.
            core::arch::naked_asm!(
                concat!("mov ", $stack, ", rsp"),
                concat!("mov ", $rbp, ", rbp"),
                "jmp {told}",
                told = sym $told,
            )
        }
    };
}

#[cfg(not(target_arch = "x86_64"))]
macro_rules! noting_its_caller {
    ($(#[$about:meta])* fn $name:ident($($argument:ident: $of:ty),*) -> $result:ty = $told:path
        [$stack:literal $rbp:literal]) => {
        $(#[$about])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $of),*) -> $result {
            #[allow(unused_unsafe, reason = "some of them ask for no promise")]
            // SAFETY: the caller gives the same guarantees.
            unsafe {
                $told($($argument,)* $crate::caller::Caller::FOUND_LATER)
            }
        }
    };
}
pub(crate) use noting_its_caller;
