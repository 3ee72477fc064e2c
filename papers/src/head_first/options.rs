//! How the experiments are run: [`Options`].

/// How the experiments are run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// What the numbers of requests, and the bytes of memory, are divided by.
    pub(super) scale: usize,
    pub(super) seed: u64,
    pub(super) threads: usize,
}
