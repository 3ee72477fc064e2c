//! Queries how much the C library's allocator holds.

/// Smaller blocks never get their own mapping: the lowest value of glibc's mmap threshold, in
/// bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED: usize = 128 << 10;

/// The bytes that glibc holds, and their peak.
///
/// Reading its statistics (`mallinfo2`) is slow. But the bytes held can only change when the heap's
/// end moves or a block has its own mapping, so they are read only then.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) struct Gauge {
    /// Bytes in use before the replay, which do not count.
    foreign: u64,
    held: u64,
    peak: u64,
    /// The heap's end at the last check.
    end: usize,
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
impl Gauge {
    pub(crate) fn new() -> Self {
        let books = Self::books();
        let foreign = (books.uordblks + books.hblkhd) as u64;
        Self { foreign, held: 0, peak: 0, end: Self::heap_end() }
    }

    /// Call it after each operation, on `size` bytes; for the peak, allocations suffice.
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

    /// Returns the bytes held at the last check.
    pub(crate) fn held(&self) -> Option<u64> {
        Some(self.held)
    }

    /// Returns the peak of the bytes held.
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

/// Other C libraries do not report how much they hold.
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
