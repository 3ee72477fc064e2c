//! What the allocator has in use and holds: [`Stats`], and the summary that
//! `PAGEWISE_SHOW_STATS=1` writes at the end. None of it allocates.

use core::fmt::{self, Write};

use super::{mapping, os, quick, registry};

/// What the process has allocated. Bytes, unless said otherwise. Threads go on while it is
/// gathered, so the figures agree with each other only where none does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks in use (number).
    pub blocks: usize,
    /// Bytes of the blocks in use, as the program got them.
    pub live: usize,
    /// Bytes of free blocks that quick lists keep at hand.
    pub quick: usize,
    /// Address space in use by heaps and mappings: blocks, free memory and bookkeeping.
    pub held: usize,
    /// The most that heaps and mappings ever held, each counted at its own most.
    pub peak_held: usize,
    /// Free memory given back to the system since the beginning.
    pub purged: u64,
    /// Bytes of mappings of their own, in use.
    pub mapped: usize,
    /// Heaps opened (number).
    pub heaps: usize,
    /// Quick lists of threads, running or ended (number).
    pub threads: usize,
}

/// Gathers the figures.
pub(super) fn gather() -> Stats {
    let mut stats = Stats::default();
    for heap in registry::heaps() {
        let (usage, purged) = heap.with(|state| (state.usage(), state.purged()));
        stats.blocks += usage.blocks;
        stats.live += usage.block;
        stats.held += usage.held;
        stats.peak_held += usage.peak_held;
        stats.purged += purged;
        stats.heaps += 1;
    }
    for lists in registry::all_lists() {
        quick::for_each(|offset| {
            let (kept, size) = quick::kept(lists, offset);
            stats.quick += kept * size;
            stats.blocks = stats.blocks.saturating_sub(kept);
        });
        stats.threads += 1;
    }
    stats.live = stats.live.saturating_sub(stats.quick);
    let (count, bytes, peak) = mapping::usage();
    stats.blocks += count;
    stats.live += bytes;
    stats.mapped = bytes;
    stats.held += bytes;
    stats.peak_held += peak;
    stats
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pagewise: {} blocks in use, {} KiB", self.blocks, self.live >> 10)?;
        writeln!(f, "pagewise: {} KiB on the quick lists of {} threads", self.quick >> 10, {
            self.threads
        })?;
        writeln!(
            f,
            "pagewise: {} KiB held by {} heaps and mappings of {} KiB; at most {} KiB",
            self.held >> 10,
            self.heaps,
            self.mapped >> 10,
            self.peak_held >> 10
        )?;
        write!(f, "pagewise: {} KiB given back to the system", self.purged >> 10)
    }
}

/// Has the statistics written when the process exits, if the environment asks for it.
pub(super) fn opened() {
    if os::variable(c"PAGEWISE_SHOW_STATS").is_some_and(|shown| shown > 0) {
        // SAFETY: the function may run at any time.
        unsafe { libc::atexit(show) };
    }
}

/// Writes the statistics to standard error.
pub(super) extern "C" fn show() {
    let mut text = Text { bytes: [0; 1024], len: 0 };
    // What does not fit the buffer is left out.
    let _ = writeln!(text, "{}", gather());
    os::write(&text.bytes[..text.len]);
}

/// Text on the stack.
struct Text {
    bytes: [u8; 1024],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}
