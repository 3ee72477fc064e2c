//! Learns that the program installs a sandbox for itself. That of sshd kills the process if it
//! calls `mincore`, by which the allocator learns which memory can go back.

use core::ffi::{c_int, c_ulong};

/// Does the same as the C library's `prctl`, and tells the allocator of a sandbox. Programs call it
/// before every filter of system calls: without privileges they must first give up new ones, and
/// libseccomp always does so.
///
/// The C library declares a variable number of arguments. On these processors they are passed as
/// here, and it reads all five as well.
///
/// # Safety
/// As for the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    if option == libc::PR_SET_SECCOMP || option == libc::PR_SET_NO_NEW_PRIVS {
        crate::PAGEWISE.enter_sandbox();
    }
    // SAFETY: the caller guarantees that the kernel may do this.
    unsafe { libc::syscall(libc::SYS_prctl, option, second, third, fourth, fifth) as c_int }
}
