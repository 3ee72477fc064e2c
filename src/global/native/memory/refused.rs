//! Remembers addresses that the system refused to unmap: a process with the most mappings allowed
//! (on Linux, `vm.max_map_count`) cannot cut one in two. The memory goes back at once; the
//! addresses go back [later](retry), when a neighbour is gone or the program has fewer mappings.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicUsize};

use crate::global::native::base::apart::Apart;
use crate::global::native::base::visit::Visit;
use crate::os;

/// Number of entries. Addresses that find none are never given back.
const ENTRIES: usize = 4096;

/// A run of whole OS pages.
struct Entry {
    /// Their bytes; [`FREE`] if the entry is empty, [`BUSY`] while a thread is at it.
    len: AtomicUsize,
    /// Where they start.
    start: AtomicPtr<u8>,
}

/// The length of an empty entry.
const FREE: usize = 0;
/// The length of an entry that a thread is reading or writing.
const BUSY: usize = 1;

/// Invariant: the remembered runs were mapped and nothing uses them; each page is in one run.
struct Refused {
    /// The runs, in any order, and empty entries.
    entries: [Entry; ENTRIES],
    /// Number of entries ever used; these come first.
    used: AtomicUsize,
    /// Number of runs remembered.
    count: AtomicUsize,
}

/// The runs of this process.
static REFUSED: Apart<Refused> = Apart::new(Refused::new());

/// Gives whole OS pages back, now or later.
///
/// # Safety
/// The pages were mapped here and are not used any more.
pub(in crate::global::native) unsafe fn release(start: *mut u8, len: usize) {
    // SAFETY: the caller guarantees that the pages are unused.
    if unsafe { !os::release(start, len) } {
        REFUSED.remember(start, len);
    }
}

/// Returns whether any addresses wait to go back.
pub(in crate::global::native) fn has_any() -> bool {
    REFUSED.count.load(Relaxed) > 0
}

/// Gives back the addresses that the system now takes, until the visit is over. Returns whether
/// there were any.
pub(in crate::global::native) fn retry(visit: &mut Visit) -> bool {
    // SAFETY: by the invariant they were mapped, and nobody uses them.
    has_any() && REFUSED.retry(|start, len| unsafe { !visit.is_over() && os::release(start, len) })
}

impl Refused {
    /// Remembers nothing yet.
    const fn new() -> Self {
        Self {
            entries: [const {
                Entry { len: AtomicUsize::new(FREE), start: AtomicPtr::new(ptr::null_mut()) }
            }; ENTRIES],
            used: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
        }
    }

    /// Remembers a run, if an entry is empty.
    #[cold]
    fn remember(&self, start: *mut u8, len: usize) {
        let take = |entry: &Entry| {
            entry.len.load(Relaxed) == FREE
                && entry.len.compare_exchange(FREE, BUSY, Acquire, Relaxed).is_ok()
        };
        if let Some(at) = self.entries.iter().position(take) {
            self.entries[at].start.store(start, Relaxed);
            self.entries[at].len.store(len, Release);
            self.used.fetch_max(at + 1, Relaxed);
            self.count.fetch_add(1, Relaxed);
        }
    }

    /// Forgets the runs for which `goes` returns true. Returns whether there were any.
    fn retry(&self, mut goes: impl FnMut(*mut u8, usize) -> bool) -> bool {
        let mut any = false;
        for entry in &self.entries[..self.used.load(Relaxed)] {
            let len = entry.len.load(Relaxed);
            if len <= BUSY || entry.len.compare_exchange(len, BUSY, Acquire, Relaxed).is_err() {
                continue;
            }
            let gone = goes(entry.start.load(Relaxed), len);
            if gone {
                self.count.fetch_sub(1, Relaxed);
            }
            entry.len.store(if gone { FREE } else { len }, Release);
            any |= gone;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(at: usize) -> *mut u8 {
        ptr::without_provenance_mut(at << 12)
    }

    /// Each remembered run goes back once, or stays. Runs that find no entry are dropped.
    #[test]
    fn remembered_runs_go_back_once() {
        let refused = Box::new(Refused::new());
        let odd = |start: *mut u8, _: usize| (start.addr() >> 12) % 2 == 1;
        for at in 1..=ENTRIES + 10 {
            refused.remember(address(at), at << 12);
        }
        assert_eq!(refused.count.load(Relaxed), ENTRIES);
        assert!(refused.retry(odd) && !refused.retry(odd));
        assert_eq!(refused.count.load(Relaxed), ENTRIES / 2);
        // Free entries are used again.
        refused.remember(address(1), 1 << 12);
        assert!(refused.retry(odd));
        let mut left = Vec::new();
        assert!(refused.retry(|start, len| {
            assert_eq!(start.addr(), len);
            left.push(len >> 12);
            true
        }));
        assert!(left.into_iter().eq((1..=ENTRIES).filter(|at| at % 2 == 0)));
        assert!(refused.count.load(Relaxed) == 0 && !refused.retry(|_, _| true));
    }

    /// Threads that remember and retry at the same time lose no run, and give none back twice.
    #[cfg(not(target_family = "wasm"))]
    #[test]
    fn threads_lose_nothing() {
        const EACH: usize = if cfg!(miri) { 40 } else { 3_000 };
        let refused = Box::new(Refused::new());
        let gone: Vec<AtomicUsize> = (0..4 * EACH).map(|_| AtomicUsize::new(0)).collect();
        let retry = || {
            refused.retry(|start, len| {
                assert_eq!(len, 1 << 12);
                gone[(start.addr() >> 12) - 1].fetch_add(1, Relaxed);
                true
            })
        };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (refused, retry) = (&refused, &retry);
                scope.spawn(move || {
                    for at in 0..EACH {
                        refused.remember(address(thread * EACH + at + 1), 1 << 12);
                        if at % 7 == 0 {
                            retry();
                        }
                    }
                });
            }
        });
        retry();
        assert!(gone.iter().all(|times| times.load(Relaxed) == 1));
    }
}
