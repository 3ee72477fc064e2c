//! Addresses of functions, for x86-64 and AArch64: the function that the program calls by a name may
//! be its own, not ours.

/// Returns an address that these instructions compute.
macro_rules! computed {
    ($($line:expr),*; $($option:ident),*) => {{
        let address: *const core::ffi::c_void;
        // SAFETY: reads at most the library's own table of addresses.
        unsafe {
            core::arch::asm!(
                $($line,)*
                out(reg) address,
                options(nostack, preserves_flags, $($option),*),
            );
        }
        address
    }};
}

/// Returns the address of the function of this name that the program calls.
#[cfg(target_arch = "x86_64")]
macro_rules! called {
    ($name:literal) => {
        $crate::symbols::computed!(
            concat!("mov {0}, qword ptr [rip + ", $name, "@GOTPCREL]");
            pure, readonly
        )
    };
}

/// Returns the address of a label of our own.
#[cfg(target_arch = "x86_64")]
macro_rules! own {
    ($label:expr) => {
        $crate::symbols::computed!(concat!("lea {0}, [rip + ", $label, "]"); pure, nomem)
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! called {
    ($name:literal) => {
        $crate::symbols::computed!(
            concat!("adrp {0}, :got:", $name),
            concat!("ldr {0}, [{0}, :got_lo12:", $name, "]");
            pure, readonly
        )
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! own {
    ($label:expr) => {
        $crate::symbols::computed!(
            concat!("adrp {0}, ", $label),
            concat!("add {0}, {0}, :lo12:", $label);
            pure, nomem
        )
    };
}

pub(crate) use {called, computed, own};
