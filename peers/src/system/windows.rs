//! Windows.

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentThread, GetProcessAffinityMask, GetProcessTimes, GetThreadTimes,
    SetThreadAffinityMask,
};

use super::Resources;

/// Pins the calling thread to the `index`-th CPU that this process may use (modulo their number).
/// Does nothing where it is not possible.
pub(crate) fn to_cpu(index: usize) {
    let (mut given, mut there) = (0, 0);
    // SAFETY: both are valid for writes.
    unsafe { GetProcessAffinityMask(GetCurrentProcess(), &raw mut given, &raw mut there) };
    let cpus: Vec<u32> = (0..usize::BITS).filter(|cpu| given >> cpu & 1 == 1).collect();
    if !cpus.is_empty() {
        // SAFETY: the handle is the calling thread's.
        unsafe { SetThreadAffinityMask(GetCurrentThread(), 1 << cpus[index % cpus.len()]) };
    }
}

/// Returns the sum of two times, user and kernel mode, in nanoseconds.
fn nanoseconds(times: [FILETIME; 2]) -> i64 {
    let ticks =
        |time: FILETIME| i64::from(time.dwHighDateTime) << 32 | i64::from(time.dwLowDateTime);
    times.map(ticks).iter().sum::<i64>() * 100
}

pub(crate) fn resources() -> Resources {
    let [mut made, mut ended, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: all four are valid for writes.
    unsafe {
        GetProcessTimes(
            GetCurrentProcess(),
            &raw mut made,
            &raw mut ended,
            &raw mut kernel,
            &raw mut user,
        )
    };
    let memory = memory();
    Resources {
        cpu: nanoseconds([kernel, user]),
        peak: memory.PeakWorkingSetSize as i64 >> 10,
        faults: memory.PageFaultCount.into(),
    }
}

/// Returns the nanoseconds of CPU time of the calling thread.
pub(crate) fn thread_time() -> u64 {
    let [mut made, mut ended, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: as above.
    unsafe {
        GetThreadTimes(
            GetCurrentThread(),
            &raw mut made,
            &raw mut ended,
            &raw mut kernel,
            &raw mut user,
        )
    };
    nanoseconds([kernel, user]) as u64
}

/// Returns the resident bytes of this process.
pub(crate) fn resident() -> usize {
    memory().WorkingSetSize
}

fn memory() -> PROCESS_MEMORY_COUNTERS {
    let mut counters = PROCESS_MEMORY_COUNTERS::default();
    let len = size_of_val(&counters) as u32;
    // SAFETY: `counters` is valid for writes of this length.
    unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, len) };
    counters
}
