//! The names shared by a recorder and the program that starts it.

/// The environment variable that arms a recorder: the absolute path of an existing directory for
/// the logs. Without it nothing is recorded.
pub const DIRECTORY: &str = "PAGEWISE_RECORD_DIR";

/// The environment variable that limits the length of each log, in bytes; without it there is no
/// limit.
pub const MAX_LOG: &str = "PAGEWISE_RECORD_MAX_LOG";

/// The environment variable that requests call stacks of allocations: the maximum number of frames,
/// from the innermost. Without it, and with 0, there are none.
pub const STACKS: &str = "PAGEWISE_RECORD_STACKS";

/// The maximum number of frames of a recorded stack.
pub const DEEPEST: usize = 256;

/// The file in that directory that turns recording on and off: see [`Control`](super::Control).
#[cfg(unix)]
pub(super) const CONTROL: &str = "control";

/// The file in that directory that is locked while the recording is kept: see
/// [`Keeper`](super::Keeper).
#[cfg(target_os = "linux")]
pub(super) const KEEPER: &str = "keeper";

/// Extension of a raw log's file name.
pub const EXTENSION: &str = "pwlog";

/// Extension of the empty file left by a log that could not be created: `PID.SERIAL.ERROR.pwfail`,
/// where `ERROR` is the system's error number.
pub const FAILED: &str = "pwfail";
