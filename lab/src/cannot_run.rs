//! The error of a program that could not be started: [`CannotRun`].

use std::path::Path;
use std::process::ExitCode;

/// A program could not be started.
#[derive(Debug)]
pub(crate) struct CannotRun {
    program: String,
    why: std::io::Error,
}

impl CannotRun {
    pub(crate) fn new(program: &Path, why: std::io::Error) -> Self {
        Self { program: program.display().to_string(), why }
    }

    /// Returns the exit status for it, as shells have: 127 if there is no such program, else 126.
    pub(crate) fn status(&self) -> ExitCode {
        ExitCode::from(if self.why.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
    }
}

impl std::fmt::Display for CannotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot run {}", self.program)
    }
}

impl std::error::Error for CannotRun {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.why)
    }
}
