//! Gathers the statistics, and writes the summary that `PAGEWISE_SHOW_STATS=1` asks for. None of it
//! allocates.

use core::fmt::{self, Write};

use super::{ClassStats, Stats, mapping, os, quick, registry};

/// Gathers the figures.
pub(super) fn stats() -> Stats {
    let mut stats = Stats::default();
    for heap in registry::heaps() {
        // A heap that cannot be waited for is left out.
        let Some((usage, purged)) = heap.with(|state| (state.usage(), state.purged())) else {
            continue;
        };
        stats.blocks += usage.blocks;
        stats.live += usage.block;
        stats.held += usage.held;
        stats.peak_held += usage.peak_held;
        stats.purged += purged;
        stats.resident += heap.resident();
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
    stats.mappings = count;
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

/// Calls `visit` for each class that has pages, from the smallest on.
pub(super) fn for_each_class(visit: &mut dyn FnMut(ClassStats)) {
    /// Classes gathered in one pass, on the stack.
    const AT_ONCE: usize = 64;
    let Some(first) = registry::heaps().next() else { return };
    let classes = first.classes() as usize;
    for from in (0..classes).step_by(AT_ONCE) {
        let mut gathered = [ClassStats::default(); AT_ONCE];
        for heap in registry::heaps() {
            heap.for_each_page(&mut |class, size, bytes, in_use| {
                let at = (class as usize).checked_sub(from);
                if let Some(stats) = at.and_then(|at| gathered.get_mut(at)) {
                    stats.size = size;
                    stats.blocks += in_use;
                    stats.pages += 1;
                    stats.held += bytes;
                }
            });
        }
        for lists in registry::all_lists() {
            let mut class = 0_usize;
            quick::for_each(|offset| {
                let at = class.checked_sub(from);
                if let Some(stats) = at.and_then(|at| gathered.get_mut(at)) {
                    stats.quick += quick::kept(lists, offset).0;
                }
                class += 1;
            });
        }
        for mut stats in gathered.into_iter().filter(|stats| stats.pages > 0) {
            stats.blocks = stats.blocks.saturating_sub(stats.quick);
            visit(stats);
        }
    }
}

/// What stands above the columns of [`ClassStats`].
const HEADER: &str = "pagewise:   block size       in use     on lists        pages     held KiB";

/// Writes the statistics to standard error.
pub(super) extern "C" fn show() {
    let mut text = Text { bytes: [0; 1024], len: 0 };
    // The text is longer than its buffer, but a line is not.
    let _ = writeln!(text, "{}\n{}", stats(), HEADER);
    for_each_class(&mut |class| {
        let _ = writeln!(text, "{class}");
    });
    text.write();
}

/// Text on its way to standard error, on the stack.
struct Text {
    bytes: [u8; 1024],
    len: usize,
}

impl Text {
    /// Writes what there is.
    fn write(&mut self) {
        os::write(&self.bytes[..self.len]);
        self.len = 0;
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() > self.bytes.len() - self.len {
            self.write();
        }
        let room = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}
