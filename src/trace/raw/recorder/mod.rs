//! The recording side: the log of the running process (`log`), what the environment asks for
//! (`session`), and the few calls of the system that both make (`system`).

mod log;
mod session;
mod system;

pub use log::{new_thread, record};
