//! Starts programs that can be interrupted, even if the tests themselves ignore the signals.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes a program end at SIGINT, SIGQUIT and SIGHUP. Shells make background commands ignore the
/// first two, `nohup` the third, and the programs that the tests start would inherit that.
pub(crate) fn interruptible(command: &mut Command) -> &mut Command {
    let listen = || {
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
            // SAFETY: only changes the signal disposition of this child, which is about to execute
            // the program.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: `listen` calls only functions that are allowed between fork and exec.
    unsafe { command.pre_exec(listen) }
}
