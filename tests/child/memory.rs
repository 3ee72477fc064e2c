//! The system's figures on this process's memory, read without the allocator.

/// Whether memory that the allocator gives back is gone at once, and reads as zeros when it is used
/// again. On macOS and FreeBSD it counts as resident, and keeps its contents, until the system
/// needs it.
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
        // SAFETY: it is written to.
        unsafe { GetSystemInfo(&raw mut info) };
        info.dwPageSize as usize
    }
}

/// Returns whether an address cannot be read.
#[cfg(unix)]
pub(crate) fn is_closed(address: *const u8) -> bool {
    let mut pipe = [0; 2];
    // SAFETY: the kernel writes two numbers; it reads a byte at the address if it can, and says so if not.
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
    // SAFETY: it is written to, and is this long; any address may be asked for.
    let known = unsafe { VirtualQuery(address.cast(), &raw mut found, size_of_val(&found)) } > 0;
    assert!(known, "the system tells");
    found.State != MEM_COMMIT || found.Protect == PAGE_NOACCESS
}

/// Returns whether an emulator is part of this process, as `tests/targets.sh` tells. Its own memory
/// is resident as well.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os("EMULATED").is_some()
}

/// Returns the bytes of this process that are resident now; not by OS pages, whose size a test may
/// have invented. Of one that is emulated, those of the allocator's heaps, by the kernel's word.
#[cfg(target_os = "linux")]
pub(crate) fn resident() -> usize {
    if is_emulated() {
        return pagewise::Pagewise::new().stats().resident;
    }
    let mut text = [0_u8; 4096];
    // SAFETY: the file is read into the buffer, and closed.
    let len = unsafe {
        let file = libc::open(c"/proc/self/status".as_ptr(), libc::O_RDONLY);
        let len = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        usize::try_from(len).expect("there is a /proc")
    };
    let text = str::from_utf8(&text[..len]).expect("the system writes text");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its line");
    let kib: usize = line.trim_end_matches("kB").trim().parse().expect("a number");
    kib << 10
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
    // SAFETY: the counters are written to, and are this long.
    let done = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, len) } != 0;
    assert!(done, "the system tells");
    counters.WorkingSetSize
}

/// As far as the allocator knows.
#[cfg(not(any(target_os = "linux", windows)))]
pub(crate) fn resident() -> usize {
    pagewise::Pagewise::new().stats().resident
}
