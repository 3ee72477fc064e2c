//! Who called a function of this library: [`Caller`], and the functions that note it.

/// The state of the caller when it called.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Caller {
    /// Where the return address lies.
    pub(crate) stack: u64,
    pub(crate) rbp: u64,
}

/// Found out by a walk. (C has no structures of nothing.)
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

/// Defines a function of C as another one that is told its caller behind the arguments: the names of the registers
/// that it is told in follow.
#[cfg(target_arch = "x86_64")]
macro_rules! noting_its_caller {
    ($(#[$about:meta])* fn $name:ident($($argument:ident: $of:ty),*) -> $result:ty = $told:path
        [$stack:literal $rbp:literal]) => {
        $(#[$about])*
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name($($argument: $of),*) -> $result {
            // Nothing has changed since the call: `rsp` tells where the return address lies, and `rbp` is
            // the caller's. A pair of words is passed in two registers behind the other arguments.
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
            // SAFETY: the caller's promise is the same.
            unsafe {
                $told($($argument,)* $crate::caller::Caller::FOUND_LATER)
            }
        }
    };
}
pub(crate) use noting_its_caller;
