//! The calling thread, threads of our own, and the processors they run on.

use core::ffi::c_void;
use core::ptr;

use windows_sys::Win32::Foundation::{CloseHandle, GetLastError, HANDLE, SetLastError};
use windows_sys::Win32::System::Kernel::PROCESSOR_NUMBER;
use windows_sys::Win32::System::Threading::{
    ALL_PROCESSOR_GROUPS, CreateThread, GetActiveProcessorCount, GetCurrentProcess,
    GetCurrentProcessorNumberEx, GetCurrentThreadId, GetNumaProcessorNodeEx,
    GetProcessAffinityMask, INFINITE, WaitForSingleObject,
};

use crate::os::CpuSet;

/// Returns a number that belongs to the calling thread alone, used in place of an address. It is a
/// multiple of 512, since thread numbers are multiples of four.
#[inline]
pub(crate) fn thread_address() -> usize {
    (thread_id() as u32 as usize) << 7
}

/// Returns the system's number for the calling thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: the call may be made at any time.
    unsafe { GetCurrentThreadId() as i32 }
}

/// Restores the calling thread's last error when dropped: `free` must not change it.
pub(crate) struct KeepErrno(u32);

impl KeepErrno {
    pub(crate) fn new() -> Self {
        // SAFETY: the call may be made at any time.
        Self(unsafe { GetLastError() })
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: the call may be made at any time.
        unsafe { SetLastError(self.0) };
    }
}

/// The function that a thread of ours runs.
type ThreadMain = extern "C" fn(*mut c_void) -> *mut c_void;

/// Starts a thread with a small stack; `None` if the system refuses.
pub(crate) fn start_thread(run: ThreadMain) -> Option<usize> {
    /// Bytes of stack that are committed at first.
    const STACK: usize = 64 << 10;
    // SAFETY: the thread gets the function to run; nothing else is shared with it.
    let thread = unsafe {
        CreateThread(ptr::null(), STACK, Some(begin), run as *const c_void, 0, ptr::null_mut())
    };
    (!thread.is_null()).then(|| thread.addr())
}

unsafe extern "system" fn begin(run: *mut c_void) -> u32 {
    // SAFETY: `start_thread` passes a function of this type.
    let run = unsafe { core::mem::transmute::<*mut c_void, ThreadMain>(run) };
    run(ptr::null_mut());
    0
}

/// Returns `false`: the system is not asked whether other threads still run.
pub(crate) fn is_last_thread() -> bool {
    false
}

/// Does nothing: no thread is known to be the last one.
pub(crate) fn start_successor(_: usize) {}

/// Waits until a thread from [`start_thread`] ends.
pub(crate) fn join_thread(thread: usize) {
    let thread: HANDLE = ptr::without_provenance_mut(thread);
    // SAFETY: the thread was started here, and is joined only once.
    unsafe {
        WaitForSingleObject(thread, INFINITE);
        CloseHandle(thread);
    }
}

/// Returns how many CPUs this process may run on, at least 1, whatever its threads were seen on.
pub(crate) fn cpus(_: &mut CpuSet) -> usize {
    let (mut own, mut all) = (0, 0);
    // SAFETY: the calls write the variables that they are given.
    let known =
        unsafe { GetProcessAffinityMask(GetCurrentProcess(), &raw mut own, &raw mut all) != 0 };
    // The mask is 0 for a process in several groups of 64 CPUs.
    let cpus = if known && own != 0 {
        own.count_ones()
    } else {
        // SAFETY: the call may be made at any time.
        unsafe { GetActiveProcessorCount(ALL_PROCESSOR_GROUPS) }
    };
    (cpus as usize).max(1)
}

/// Returns the NUMA node of the CPU that the calling thread runs on now; 0 if the system does not
/// tell.
pub(crate) fn node() -> u32 {
    let (mut cpu, mut node) = (PROCESSOR_NUMBER::default(), 0_u16);
    // SAFETY: the calls write the variables that they are given.
    let got = unsafe {
        GetCurrentProcessorNumberEx(&raw mut cpu);
        GetNumaProcessorNodeEx(&raw const cpu, &raw mut node)
    };
    if got != 0 { node.into() } else { 0 }
}

/// Returns `None`: quotas of processor time, which a job object may set, are not read.
pub(crate) fn cpu_quota() -> Option<usize> {
    None
}
