//! Asks the C library's allocator how much it holds.

/// A block smaller than this never gets a mapping of its own: the least the GNU C library's
/// threshold for that can be, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED: usize = 128 << 10;

/// Bytes the GNU C library holds, and the most it held.
///
/// Asking for its statistics (`mallinfo2`) takes long. But the bytes held can only change when the
/// heap's end moves or a block has a mapping of its own, so they are read only then.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) struct Gauge {
    /// Bytes in use before the replay; not the replay's.
    foreign: u64,
    held: u64,
    peak: u64,
    /// Where the heap ended when last looked at.
    end: usize,
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
impl Gauge {
    pub(crate) fn new() -> Self {
        let books = Self::books();
        let foreign = (books.uordblks + books.hblkhd) as u64;
        Self { foreign, held: 0, peak: 0, end: Self::heap_end() }
    }

    /// To be called after each operation, on `size` bytes; the peak needs allocations only.
    pub(crate) fn read_after(&mut self, size: usize) {
        let end = Self::heap_end();
        if end != self.end || size >= MAPPED || self.peak == 0 {
            self.end = end;
            let books = Self::books();
            let held = (books.arena + books.hblkhd) as u64;
            self.held = held.saturating_sub(self.foreign);
            self.peak = self.peak.max(self.held);
        }
    }

    /// Returns the bytes held when last asked.
    pub(crate) fn held(&self) -> Option<u64> {
        Some(self.held)
    }

    /// Returns the most it held when asked.
    pub(crate) fn peak(&self) -> Option<u64> {
        Some(self.peak)
    }

    fn books() -> libc::mallinfo2 {
        // SAFETY: a plain query.
        unsafe { libc::mallinfo2() }
    }

    fn heap_end() -> usize {
        // SAFETY: an increment of 0 changes nothing.
        unsafe { libc::sbrk(0) }.addr()
    }
}

/// No other C library tells how much it holds.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) struct Gauge;

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
impl Gauge {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn read_after(&mut self, _: usize) {}

    pub(crate) fn held(&self) -> Option<u64> {
        None
    }

    pub(crate) fn peak(&self) -> Option<u64> {
        None
    }
}
