//! Collects the statistics, and writes the summary that `PAGEWISE_SHOW_STATS=1` asks for. Allocates
//! nothing.

use core::fmt::Write;

use super::fork;
use crate::global::native::base::once::Once;
use crate::global::native::base::settings::Settings;
use crate::global::native::base::text::Text;
use crate::global::native::base::{mode, sizes};
use crate::global::native::hardened::own;
use crate::global::native::heaps::{kept, mapping, pool};
use crate::global::native::lists::{medium, quick, registry};
use crate::global::{ClassStats, Stats};
use crate::os;

/// Collects the figures.
pub(in crate::global::native) fn stats() -> Stats {
    let mut stats = Stats::default();
    let mut waited = false;
    for heap in pool::all() {
        let look = || heap.with(|state| (state.usage(), state.purged()));
        // A heap whose lock cannot be waited for is left out, unless another thread just forks.
        let found = look().or_else(|| {
            waited = waited || fork::wait_for_end();
            if waited { look() } else { None }
        });
        let Some((usage, purged)) = found else { continue };
        stats.blocks += usage.blocks;
        stats.live += usage.block;
        stats.held += usage.held;
        stats.peak_held += usage.peak_held;
        stats.purged += purged;
        stats.resident += heap.resident();
        stats.heaps += 1;
    }
    for lists in registry::all_lists() {
        sizes::for_each(|offset| {
            let listed = quick::kept(lists, offset);
            stats.quick += listed.bytes;
            stats.blocks = stats.blocks.saturating_sub(listed.blocks);
        });
        let listed = if mode::is_hardened() { own::kept(lists) } else { medium::of(lists).kept() };
        stats.quick += listed.bytes;
        stats.blocks = stats.blocks.saturating_sub(listed.blocks);
        stats.threads += 1;
    }
    stats.live = stats.live.saturating_sub(stats.quick);
    let mapped = mapping::usage();
    stats.blocks += mapped.count;
    stats.live += mapped.bytes;
    stats.mapped = mapped.bytes;
    stats.mappings = mapped.count;
    stats.held += mapped.bytes + kept::bytes();
    stats.peak_held += mapped.peak;
    stats
}

/// Identity of standard error at the start, if the statistics are written there at exit.
static STANDARD_ERROR: Once<os::FileIdentity> = Once::new();

/// Registers the summary to be written at exit, if that is set.
pub(in crate::global::native) fn register_summary(settings: &Settings) {
    if settings.show_stats
        && let Some(file) = os::standard_error()
        && STANDARD_ERROR.set(file)
    {
        os::at_exit(show_at_exit);
    }
}

/// Writes the summary, unless file descriptor 2 is another file by now: a program may have closed
/// standard error and opened a file, which got the number.
extern "C" fn show_at_exit() {
    if os::standard_error().as_ref() == STANDARD_ERROR.get() {
        show();
    }
}

/// Calls `visit` for each class that has pages, in ascending order.
pub(in crate::global::native) fn for_each_class(visit: &mut dyn FnMut(ClassStats)) {
    /// Classes counted in one pass, on the stack.
    const AT_ONCE: usize = 64;
    let Some(first) = pool::all().next() else { return };
    let classes = first.classes() as usize;
    for from in (0..classes).step_by(AT_ONCE) {
        let mut counted = [ClassStats::default(); AT_ONCE];
        for heap in pool::all() {
            heap.for_each_page(&mut |class, size, bytes, in_use| {
                let at = (class as usize).checked_sub(from);
                if let Some(stats) = at.and_then(|at| counted.get_mut(at)) {
                    stats.size = size;
                    stats.blocks += in_use;
                    stats.pages += 1;
                    stats.held += bytes;
                }
            });
        }
        for lists in registry::all_lists() {
            let mut class = 0_usize;
            sizes::for_each(|offset| {
                let at = class.checked_sub(from);
                if let Some(stats) = at.and_then(|at| counted.get_mut(at)) {
                    stats.quick += quick::kept(lists, offset).blocks;
                }
                class += 1;
            });
        }
        for mut stats in counted.into_iter().filter(|stats| stats.pages > 0) {
            stats.blocks = stats.blocks.saturating_sub(stats.quick);
            visit(stats);
        }
    }
}

/// The header above the columns of [`ClassStats`].
const HEADER: &str = "pagewise:   block size       in use     on lists        pages     held KiB";

/// Writes the statistics to standard error.
pub(in crate::global::native) fn show() {
    let mut text = Text::new();
    // The text is longer than its buffer, but no line is.
    let _ = writeln!(text, "{}\n{}", stats(), HEADER);
    for_each_class(&mut |class| {
        let _ = writeln!(text, "{class}");
    });
    text.flush();
}

#[cfg(all(test, not(miri)))]
mod tests;
