//! Starts programs that can be interrupted, even if the tests themselves ignore the signal.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes a program end at SIGINT. A shell makes its background commands ignore that signal, and the
/// programs that the tests start would inherit that.
pub(crate) fn interruptible(command: &mut Command) -> &mut Command {
    let listen = || {
        // SAFETY: the call changes how this process, which is to become the program, takes a signal.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: it calls nothing that a forked child must not.
    unsafe { command.pre_exec(listen) }
}
