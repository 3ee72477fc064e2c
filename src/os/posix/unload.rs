//! Unregisters the functions of this library that the system would call, when the library is
//! unloaded. (macOS never unloads a library with thread-local variables, which this one has.) Also
//! runs when a program exits, while other threads may go on.

#[cfg(feature = "guarded")]
use super::faults;
use super::thread_end;

#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOAD: extern "C" fn() = unload;

extern "C" fn unload() {
    thread_end::delete_key();
    #[cfg(feature = "guarded")]
    faults::put_handlers_back();
    #[cfg(all(target_os = "linux", feature = "profiler"))]
    crate::os::linux::ignore_signal();
}
