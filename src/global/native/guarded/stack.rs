//! Where a thread is: the addresses its calls return to.

use core::fmt::Write;

use super::super::text::Text;
use crate::os;

/// Calls that are remembered.
const DEPTH: usize = 16;

/// The innermost calls of a thread; 0 behind the last.
#[derive(Clone, Copy)]
pub(super) struct Stack([usize; DEPTH]);

impl Stack {
    pub(super) const EMPTY: Self = Self([0; DEPTH]);

    /// The calling thread's. May allocate, by way of the unwinder.
    pub(super) fn here() -> Self {
        let mut stack = Self::EMPTY;
        os::return_addresses(&mut stack.0);
        stack
    }

    /// Writes a line for each call: the file and the place in it, as `addr2line` takes them, and the function's
    /// name where the file has one.
    pub(super) fn show(&self, text: &mut Text) {
        for &address in self.0.iter().take_while(|&&address| address > 0) {
            let is_known = os::origin(address, |file, start, function| {
                let offset = address - start;
                let _ = write!(text, "pagewise:     {}+{offset:#x}", file.escape_ascii());
                if let Some(function) = function {
                    let _ = write!(text, " {}", function.escape_ascii());
                }
                let _ = writeln!(text);
            });
            if !is_known {
                let _ = writeln!(text, "pagewise:     {address:#x}");
            }
        }
    }
}
