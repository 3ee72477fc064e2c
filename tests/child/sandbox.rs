//! Makes the kernel refuse a system call, as a sandbox does, with a seccomp filter.

use std::io::{Error, Result};

/// A system call and the error that refuses it.
#[derive(Clone, Copy)]
pub(crate) struct Refusal {
    pub(crate) call: libc::c_long,
    /// The error; 0 kills the process instead.
    pub(crate) error: i32,
    /// Refuses the call only if the argument with this index is below this value.
    pub(crate) below: Option<(u32, u32)>,
}

/// Installs the filter permanently, in all threads of this process and in its children. Does not
/// allocate, so it may be used between `fork` and `exec`.
pub(crate) fn install(refusal: Refusal) -> Result<()> {
    const ARGUMENTS: u32 = 16;
    let (argument, least) = refusal.below.unwrap_or((0, 0));
    let always = refusal.below.is_none();
    let refused = match refusal.error {
        0 => libc::SECCOMP_RET_KILL_PROCESS,
        error => libc::SECCOMP_RET_ERRNO | error as u32,
    };
    add(&mut [
        load(NUMBER),
        code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, refusal.call as u32, [0, 3]),
        load(ARGUMENTS + 8 * argument),
        code(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, least, [u8::from(!always), 0]),
        answer(refused),
        answer(libc::SECCOMP_RET_ALLOW),
    ])
}

/// From now on, any system call but these kills the process.
pub(crate) fn allow_only(calls: &[libc::c_long]) -> Result<()> {
    let is = |&call: &libc::c_long| {
        let jump = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        [code(jump, call as u32, [0, 1]), answer(libc::SECCOMP_RET_ALLOW)]
    };
    let mut filter = vec![load(NUMBER)];
    filter.extend(calls.iter().flat_map(is));
    filter.push(answer(libc::SECCOMP_RET_KILL_PROCESS));
    add(&mut filter)
}

// Offsets in `seccomp_data`: the call's number; its arguments from 16, eight bytes each, low half
// first (little-endian).
const NUMBER: u32 = 0;

fn code(class: u32, operand: u32, [yes, no]: [u8; 2]) -> libc::sock_filter {
    libc::sock_filter { code: class as u16, jt: yes, jf: no, k: operand }
}

fn load(at: u32) -> libc::sock_filter {
    code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at, [0, 0])
}

fn answer(with: u32) -> libc::sock_filter {
    code(libc::BPF_RET | libc::BPF_K, with, [0, 0])
}

fn add(filter: &mut [libc::sock_filter]) -> Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter live as long as the calls, which only read them.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &raw const program,
            ) == 0
    };
    if done { Ok(()) } else { Err(Error::last_os_error()) }
}
