//! A library to preload.

use std::process::Command;
use std::{fmt, fs};

/// A preloaded library (none if the path is empty), and the environment of its runs.
#[derive(Default)]
pub(crate) struct Library {
    pub(crate) path: String,
    settings: Vec<(String, String)>,
}

impl Library {
    /// Parses an argument: a path, and settings after colons. `None` if there is no such file.
    pub(crate) fn parse(argument: &str) -> Option<Self> {
        let mut parts = argument.split(':');
        let path = fs::canonicalize(parts.next()?).ok()?.display().to_string();
        let setting = |part: &str| {
            let (name, value) = part.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        Some(Self { path, settings: parts.map(setting).collect::<Option<_>>()? })
    }

    /// Has a command run with the library.
    pub(crate) fn preload(&self, command: &mut Command) {
        if !self.path.is_empty() {
            command.env("LD_PRELOAD", &self.path);
        }
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path.rsplit('/').next().unwrap_or(&self.path))?;
        self.settings.iter().try_for_each(|(name, value)| write!(f, ", {name}={value}"))
    }
}
