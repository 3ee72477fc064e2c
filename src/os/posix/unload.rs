//! What has the system call this code is undone when the library with it is unloaded, since the
//! code is gone then. (macOS never unloads a library with thread-local variables, which this one
//! has.) Also runs when a program exits, while other threads may go on.

use super::{faults, thread_end};

#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOAD: extern "C" fn() = unload;

extern "C" fn unload() {
    thread_end::delete_key();
    faults::put_handlers_back();
    #[cfg(all(target_os = "linux", feature = "profiler"))]
    crate::os::linux::ignore_signal();
}
