//! The addresses of freed mappings with guard pages. They stay taken for a while: a dangling pointer
//! there faults instead of reaching another block.
//!
//! They take no memory, but count where a process limits its address space. So they are few, and
//! are given up when there is no memory left. (To ask for the limit would take a system call at each
//! free, which a sandbox may not allow.)

use core::ptr;

use crate::global::native::base::apart::Apart;
use crate::global::native::base::lock::Locked;
use crate::global::native::memory::refused;
use crate::os;

/// Most mappings whose addresses stay taken.
const MOST: usize = 64;

/// Most bytes of them together.
const MOST_BYTES: usize = 128 << 20;

/// The freed mappings, as a ring.
#[derive(Debug)]
struct Closed {
    /// Where each begins, and its bytes, guard pages included.
    mappings: [(*mut u8, usize); MOST],
    /// The place of the oldest.
    first: usize,
    /// How many there are.
    count: usize,
    /// Their bytes.
    bytes: usize,
}

// SAFETY: nobody else uses the mappings.
unsafe impl Send for Closed {}

/// Those of this process.
static CLOSED: Apart<Locked<Closed>> = Apart::new(Locked::new(Closed::NONE));

impl Closed {
    const NONE: Self =
        Self { mappings: [(ptr::null_mut(), 0); MOST], first: 0, count: 0, bytes: 0 };

    /// Adds a mapping of `bytes` bytes; there is room.
    fn add(&mut self, start: *mut u8, bytes: usize) {
        self.mappings[(self.first + self.count) % MOST] = (start, bytes);
        self.count += 1;
        self.bytes += bytes;
    }

    /// Takes the oldest mapping, if there is one.
    fn take_oldest(&mut self) -> Option<(*mut u8, usize)> {
        self.count = self.count.checked_sub(1)?;
        let oldest = self.mappings[self.first];
        self.first = (self.first + 1) % MOST;
        self.bytes -= oldest.1;
        Some(oldest)
    }

    /// Takes the oldest mapping, if there is no room for another one of `bytes` bytes.
    fn take_for(&mut self, bytes: usize, most: usize) -> Option<(*mut u8, usize)> {
        let is_full = self.count == MOST || self.bytes.saturating_add(bytes) > most;
        if is_full { self.take_oldest() } else { None }
    }
}

/// Gives the memory of a mapping back, and its addresses later: once [`MOST`] others were freed, or
/// [`MOST_BYTES`] of them; at once if it alone has more.
///
/// # Safety
/// The pages were mapped here and are not used any more.
pub(super) unsafe fn keep(start: *mut u8, len: usize) {
    // SAFETY: the caller guarantees that the pages are unused.
    let stays = len <= MOST_BYTES && unsafe { os::close(start, len) };
    while stays && let Some(oldest) = with(|closed| closed.take_for(len, MOST_BYTES)).flatten() {
        release(oldest);
    }
    // Another thread may have closed one meanwhile.
    let add = |closed: &mut Closed| (closed.count < MOST).then(|| closed.add(start, len));
    if !stays || with(add).flatten().is_none() {
        // SAFETY: the pages were mapped here, are not used, and nobody else knows them.
        unsafe { refused::release(start, len) };
    }
}

/// Gives all these addresses back; returns whether there were any.
pub(in crate::global::native) fn give_back() -> bool {
    let mut any = false;
    while let Some(oldest) = with(Closed::take_oldest).flatten() {
        release(oldest);
        any = true;
    }
    any
}

/// Runs `action` on the closed mappings. Does not wait: in a fork's child the lock may be lost.
fn with<R>(action: impl FnOnce(&mut Closed) -> R) -> Option<R> {
    CLOSED.try_with(action)
}

/// Unmaps a closed mapping, which was taken out.
fn release((start, bytes): (*mut u8, usize)) {
    // SAFETY: the pages were mapped here, are not used, and nobody else knows them.
    unsafe { refused::release(start, bytes) };
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Mappings leave in the order in which they came, for want of places or of bytes.
    #[test]
    fn the_oldest_leave_first() {
        let mut closed = Closed::NONE;
        let at = core::ptr::without_provenance_mut::<u8>;
        assert_eq!(closed.take_for(1, 0), None);
        for number in 1..=MOST + 3 {
            let oldest = closed.take_for(10, 10 * MOST);
            assert_eq!(oldest, (number > MOST).then(|| (at(number - MOST), 10)));
            closed.add(at(number), 10);
        }
        assert_eq!(closed.bytes, 10 * MOST);
        for number in 4..8 {
            assert_eq!(closed.take_for(10, 10 * (MOST + 4 - number)), Some((at(number), 10)));
        }
        assert_eq!(closed.take_for(30, 10 * (MOST - 1)), None);
        let left = core::iter::from_fn(|| closed.take_oldest()).map(|(start, _)| start.addr());
        assert_eq!(left.collect::<Vec<_>>(), (8..MOST + 4).collect::<Vec<_>>());
        assert_eq!(closed.bytes, 0);
    }
}
