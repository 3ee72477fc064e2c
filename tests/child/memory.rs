//! The system's figures on this process, mostly its memory, read without using the allocator.

/// Whether memory that the allocator gives back is gone at once, and reads as zeros when used
/// again. On macOS and FreeBSD it stays resident, with its contents, until the system needs it.
pub(crate) const GOES_BACK_AT_ONCE: bool =
    cfg!(not(any(target_os = "macos", target_os = "freebsd", pagewise_portable_os)));

/// Returns the bytes of an OS page.
pub(crate) fn os_page() -> usize {
    #[cfg(unix)]
    // SAFETY: a plain query.
    return unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    #[cfg(windows)]
    {
        use windows_sys::Win32::System::SystemInformation::{GetSystemInfo, SYSTEM_INFO};
        let mut info = SYSTEM_INFO::default();
        // SAFETY: `info` is valid for writes.
        unsafe { GetSystemInfo(&raw mut info) };
        info.dwPageSize as usize
    }
}

/// Returns whether an address cannot be read.
#[cfg(unix)]
pub(crate) fn is_closed(address: *const u8) -> bool {
    let mut pipe = [0; 2];
    // SAFETY: the kernel writes two numbers; it fails if the byte at the address cannot be read.
    unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0, "there is a pipe");
        let written = libc::write(pipe[1], address.cast(), 1);
        for end in pipe {
            libc::close(end);
        }
        written < 0
    }
}

/// Returns whether an address cannot be read.
#[cfg(windows)]
pub(crate) fn is_closed(address: *const u8) -> bool {
    use windows_sys::Win32::System::Memory::{
        MEM_COMMIT, MEMORY_BASIC_INFORMATION, PAGE_NOACCESS, VirtualQuery,
    };
    let mut found = MEMORY_BASIC_INFORMATION::default();
    // SAFETY: `found` is valid for writes of this length; any address may be queried.
    let known = unsafe { VirtualQuery(address.cast(), &raw mut found, size_of_val(&found)) } > 0;
    assert!(known, "the system tells");
    found.State != MEM_COMMIT || found.Protect == PAGE_NOACCESS
}

/// Returns whether this process runs in an emulator, as `tests/targets.sh` announces. The
/// emulator's own memory is resident as well.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os("EMULATED").is_some()
}

/// Returns the resident bytes of this process. Not counted by OS pages, since a test may fake their
/// size. In an emulator, counts the allocator's heaps only, as the kernel reports them.
#[cfg(target_os = "linux")]
pub(crate) fn resident() -> usize {
    if is_emulated() {
        return pagewise::Pagewise::new().stats().resident;
    }
    status("VmRSS:") << 10
}

/// Returns the number of threads of this process, without the emulator's. (To allocate for this
/// might start the allocator's own.)
#[cfg(target_os = "linux")]
pub(crate) fn threads() -> usize {
    status("Threads:") - usize::from(is_emulated())
}

/// Returns a number that the system tells of this process, in KiB if it is of memory.
#[cfg(target_os = "linux")]
fn status(name: &str) -> usize {
    let mut text = [0_u8; 4096];
    // SAFETY: the file is read into the buffer, then closed.
    let len = unsafe {
        let file = libc::open(c"/proc/self/status".as_ptr(), libc::O_RDONLY);
        let len = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        usize::try_from(len).expect("there is a /proc")
    };
    let text = str::from_utf8(&text[..len]).expect("the system writes text");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("its line");
    line.trim_end_matches("kB").trim().parse().expect("a number")
}

/// Returns the bytes of this process's working set.
#[cfg(windows)]
pub(crate) fn resident() -> usize {
    use windows_sys::Win32::System::ProcessStatus::{
        K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS,
    };
    use windows_sys::Win32::System::Threading::GetCurrentProcess;

    let mut counters = PROCESS_MEMORY_COUNTERS::default();
    let len = size_of_val(&counters) as u32;
    // SAFETY: `counters` is valid for writes of this length.
    let done = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, len) } != 0;
    assert!(done, "the system tells");
    counters.WorkingSetSize
}

/// Returns the bytes resident by the allocator's own count.
#[cfg(not(any(target_os = "linux", windows)))]
pub(crate) fn resident() -> usize {
    pagewise::Pagewise::new().stats().resident
}

/// Limits the addresses of the program and its children to `limit` bytes, from `exec` on; in qemu,
/// which enforces no such limit, to the `emulated` bytes that it has itself.
#[cfg(unix)]
pub(crate) fn limit_addresses(command: &mut std::process::Command, limit: u64, emulated: u64) {
    if is_emulated() {
        command.env("QEMU_RESERVED_VA", emulated.to_string());
        return;
    }
    use std::os::unix::process::CommandExt;
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: only `setrlimit` is called between `fork` and `exec`.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_AS, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}
