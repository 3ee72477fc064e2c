//! An error of the command line: [`Usage`].

use std::fmt;

/// An error of the command line that only a subcommand can detect, such as an unknown strategy.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
