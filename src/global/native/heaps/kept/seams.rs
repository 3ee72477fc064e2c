//! Where pages of different mappings were joined.

/// The most seams that are known.
pub(super) const SEAMS: usize = 512;

/// The last places where pages of different mappings were joined. They save questions to the
/// system: a forgotten one is found by asking, and one that is gone splits what could move as one.
#[derive(Debug)]
pub(super) struct Seams {
    /// The addresses of the seams; 0 where there is none yet.
    addresses: [usize; SEAMS],
    /// Index of the oldest.
    next: usize,
}

impl Seams {
    /// Knows no seam yet.
    pub(super) const fn new() -> Self {
        Self { addresses: [0; SEAMS], next: 0 }
    }

    /// Remembers a seam in place of the oldest one.
    pub(super) fn note(&mut self, address: *mut u8) {
        self.addresses[self.next] = address.addr();
        self.next = (self.next + 1) % SEAMS;
    }

    /// Returns the bytes from `start` on, up to `len`, in which no seam is known.
    pub(super) fn until(&self, start: *mut u8, len: usize) -> usize {
        let distances = self.addresses.iter().map(|seam| seam.wrapping_sub(start.addr()));
        distances.filter(|&distance| distance > 0).fold(len, usize::min)
    }
}
