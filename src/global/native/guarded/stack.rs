//! A thread's call stack: the addresses that its calls return to.

use core::fmt::Write;

use crate::global::native::base::text::Text;
use crate::os;

/// Calls that are recorded.
const DEPTH: usize = 16;

/// The innermost calls of a thread, followed by zeros.
#[derive(Clone, Copy)]
pub(super) struct Stack([usize; DEPTH]);

impl Stack {
    /// No calls.
    pub(super) const EMPTY: Self = Self([0; DEPTH]);

    /// Returns the stack of the calling thread. May allocate, in the unwinder.
    pub(super) fn here() -> Self {
        let mut stack = Self::EMPTY;
        os::return_addresses(&mut stack.0);
        stack
    }

    /// Writes a line for each call: the file and the offset in it, as `addr2line` takes them, and
    /// the function's name if the file has one.
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

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;
    use crate::os::alone;

    /// A call is shown as its file and the distance from the file's start; a call in no file, or in
    /// a statically linked program, as its address.
    #[test]
    fn calls_are_told_by_file_and_place() {
        let run = alone::passes("global::native::guarded::stack::tests::shown");
        let told = String::from_utf8_lossy(&run.stderr);
        let lines: Vec<&str> = told.lines().collect();
        let [place, call, other] = lines[..] else { panic!("{told}") };
        assert!(call.starts_with(place), "{told}");
        assert_eq!(other, "pagewise:     0x10");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn shown() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
        let file = std::env::current_exe().expect("it is known").display().to_string();
        let first = maps.lines().find(|line| line.ends_with(&file)).expect("the program is mapped");
        let start = first.split('-').next().expect("it has a start");
        let start = usize::from_str_radix(start, 16).expect("a number");
        let mut stack = Stack::EMPTY;
        stack.0[..4].copy_from_slice(&[shown as fn() as usize, 16, 0, 32]);
        let mut text = Text::new();
        let address = stack.0[0];
        let is_written = match cfg!(target_feature = "crt-static") {
            true => writeln!(text, "pagewise:     {address:#x}"),
            false => writeln!(text, "pagewise:     {file}+{:#x}", address - start),
        };
        is_written.expect("there is room");
        stack.show(&mut text);
        text.flush();
    }
}
