//! What happens on a panic: the process ends. That is all that this library needs of the standard
//! library, and that is why it has none where it can do without: with its backtraces and their
//! readers of debugging information the library would be twice as large, and every process would
//! have all of it resident.
//!
//! It can do without where the allocator can (its feature `os`), and in profiles with
//! `panic = "abort"`, such as that of release builds. Elsewhere, and when another package of the
//! same build turns on the allocator's feature `std`, the standard library is there, and defines
//! what this file would.

#[cfg(not(all(
    panic = "abort",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
extern crate std;

#[cfg(all(
    panic = "abort",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pagewise::without_std! {
    mod without_std {
        use core::arch::global_asm;
        use core::fmt::{self, Write};
        use core::panic::PanicInfo;

        #[panic_handler]
        fn on_panic(info: &PanicInfo<'_>) -> ! {
            let _ = writeln!(StandardError, "pagewise: {info}");
            // SAFETY: the call does not return.
            unsafe { libc::abort() }
        }

        struct StandardError;

        impl Write for StandardError {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                crate::write(text);
                Ok(())
            }
        }

        // The compiled `core` names a function that an unwinder is to ask about its frames. None of
        // them is unwound; the answer 8 would be to go on with the next frame. Hidden, so that
        // programs in Rust have their own.
        global_asm!(
            ".pushsection .text.rust_eh_personality,\"ax\",@progbits",
            ".weak rust_eh_personality",
            ".hidden rust_eh_personality",
            ".type rust_eh_personality,@function",
            "rust_eh_personality:",
            #[cfg(target_arch = "x86_64")]
            "mov eax, 8",
            #[cfg(target_arch = "aarch64")]
            "mov w0, #8",
            "ret",
            ".popsection",
        );
    }
}
