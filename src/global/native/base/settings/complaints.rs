//! Reports on standard error which `PAGEWISE_` variables are ignored: those with an unknown name,
//! and those without a valid value. Allocates nothing.

use core::ffi::CStr;
use core::fmt::{self, Write};

use super::super::text::Text;
use super::{PREFIX, SETTINGS, Settings, environment};
use crate::os;

/// Prefixes of names that others read: the recorder, the workbench, tests.
const OTHERS: [&[u8]; 3] = [b"PAGEWISE_RECORD", b"PAGEWISE_BROWSER", b"PAGEWISE_TEST_"];

/// Most bytes of a setting's name.
const LONGEST: usize = 31;

/// Writes a line for each variable that is ignored, if that is wanted.
pub(in crate::global::native) fn complain(settings: &Settings) {
    if !settings.are_named {
        return;
    }
    let _errno = os::KeepErrno::new();
    if !settings.verbose.unwrap_or_else(os::has_terminal) {
        return;
    }
    for setting in SETTINGS {
        environment::variable(setting.name, |value| {
            if setting.take(&mut { *settings }, value).is_none() {
                let (name, value) = (Shown(setting.name.to_bytes()), Shown(value));
                let takes = setting.takes;
                say(format_args!("{name}={value} is ignored: expected {takes}"));
            }
        });
    }
    if let Some(error) = settings.clash {
        say(format_args!(
            "PAGEWISE_PAGE_SIZE, SIZEMAP, FREETOL and FFCROSSOVER are inconsistent, and are ignored: {error}"
        ));
    }
    environment::for_each_name(|name| {
        if is_unknown(name) {
            let unknown = Shown(name);
            match nearest(name) {
                Some(meant) => {
                    let meant = Shown(meant.to_bytes());
                    say(format_args!("{unknown} is unknown and ignored: did you mean {meant}?"));
                }
                None => say(format_args!("{unknown} is unknown and ignored")),
            }
        }
    });
}

fn say(message: fmt::Arguments<'_>) {
    let mut text = Text::new();
    // Names and values are truncated, so a line fits.
    let _ = writeln!(text, "pagewise: {message}");
    text.flush();
}

/// Returns whether a name looks like a setting but is none.
fn is_unknown(name: &[u8]) -> bool {
    name.starts_with(PREFIX)
        && !OTHERS.iter().any(|other| name.starts_with(other))
        && !SETTINGS.iter().any(|setting| setting.name.to_bytes() == name)
}

/// Returns the setting that a misspelt name probably means, if one is close enough.
pub(super) fn nearest(name: &[u8]) -> Option<&'static CStr> {
    /// Most edits that count as a misspelling.
    const SLIP: usize = 3;
    if name.len() > LONGEST {
        return None;
    }
    let names = SETTINGS.iter().map(|setting| setting.name);
    let distances = names.map(|known| (distance(name, known.to_bytes()), known));
    let (distance, known) = distances.min_by_key(|&(distance, _)| distance)?;
    (distance <= SLIP).then_some(known)
}

/// Returns the least number of bytes to insert, delete or change that turns one name into the other
/// (Wagner and Fischer 1974, row by row). O(product of their lengths). `known` has at most
/// [`LONGEST`] bytes.
pub(super) fn distance(name: &[u8], known: &[u8]) -> usize {
    // Entry n: the distance from the bytes of `name` read so far to the first n bytes of `known`.
    let mut row: [usize; LONGEST + 1] = core::array::from_fn(|at| at);
    for (read, byte) in name.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = read + 1;
        for (at, other) in known.iter().enumerate() {
            let changed = diagonal + usize::from(byte != other);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[known.len()]
}

const _: () = {
    let mut at = 0;
    while at < SETTINGS.len() {
        assert!(SETTINGS[at].name.count_bytes() <= LONGEST);
        at += 1;
    }
};

/// Bytes from outside, made safe for a terminal: truncated, and escaped except for printable ASCII.
struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Most bytes that are shown.
        const MOST: usize = 64;
        let shown = self.0.get(..MOST).unwrap_or(self.0);
        write!(f, "{}", shown.escape_ascii())?;
        f.write_str(if shown.len() < self.0.len() { "..." } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long text is truncated, with an ellipsis; bytes that a terminal must not get are escaped.
    #[test]
    fn shown_bytes_are_truncated_and_escaped() {
        let shown = |bytes: &[u8]| Shown(bytes).to_string();
        assert_eq!([shown(b""), shown(b"a b"), shown(b"\x1b[\xff")], ["", "a b", "\\x1b[\\xff"]);
        let (all, more) = ("x".repeat(64), "x".repeat(65));
        assert_eq!(shown(all.as_bytes()), all);
        assert_eq!(shown(more.as_bytes()), all + "...");
    }
}
