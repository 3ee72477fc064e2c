//! How the experiments are run: [`Options`].

/// How the experiments are run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// The divisor of the numbers of requests and of the bytes of memory.
    pub(super) scale: usize,
    pub(super) seed: u64,
    pub(super) threads: usize,
}
