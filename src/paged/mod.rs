//! Pages carved into equal blocks (Brent 1984).

mod config;

pub use config::{Config, ConfigError};
