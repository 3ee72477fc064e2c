//! Gathers the statistics, and writes the summary that `PAGEWISE_SHOW_STATS=1` asks for. None of it
//! allocates.

use core::fmt::{self, Write};

use super::{Stats, mapping, os, quick, registry};

/// Gathers the figures.
pub(super) fn stats() -> Stats {
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
    let _ = writeln!(text, "{}", stats());
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
