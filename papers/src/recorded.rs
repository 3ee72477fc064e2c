//! The bundled traces for the papers' tables: a recording's paper and row, from its own note, and
//! the width of its program's words.

use std::path::{Path, PathBuf};

use pagewise::trace;
use pagewise_replay::{bundled, input};

use crate::widened::Words;

/// A trace that tables use.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) words: Words,
    note: String,
}

impl Recorded {
    /// Reads a trace's header.
    ///
    /// # Errors
    /// If the file is not a trace.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let reader = trace::open(path)?;
        let origin = &reader.header().origin;
        Ok(Self {
            name: input::trace_name(path),
            path: path.to_owned(),
            words: Words::of_width(origin.pointer_width),
            note: origin.note.clone(),
        })
    }

    /// Returns the paper's program that this is, from the note: `Chung & Moon ESP`.
    pub(crate) fn row_of(&self, paper: &str) -> Option<&str> {
        row_of(&self.note, paper)
    }
}

fn row_of<'n>(note: &'n str, paper: &str) -> Option<&'n str> {
    let (_, behind) = note.split_once(paper)?;
    let row = behind.strip_prefix(' ')?.split([' ', ',', ';', ':']).next()?;
    (!row.is_empty()).then_some(row)
}

/// Returns all bundled traces: the papers' own programs, then today's.
///
/// # Errors
/// If there are none, or one cannot be read.
pub(crate) fn bundled() -> anyhow::Result<Vec<Recorded>> {
    let paths = bundled::classics()?.into_iter().chain(bundled::traces()?);
    paths.map(|path| Recorded::open(&path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_rows_of_papers() {
        let note = "p2c 1.20: Hasan & Chang p2c, Chung & Moon P2C; 32-bit build";
        assert_eq!(row_of(note, "Hasan & Chang"), Some("p2c"));
        assert_eq!(row_of(note, "Chung & Moon"), Some("P2C"));
        assert_eq!(row_of(note, "Brent"), None);
        assert_eq!(row_of("as Chung & Moon, elsewhere", "Chung & Moon"), None);
    }

    #[test]
    fn every_program_of_chung_and_moon_and_four_of_hasan_and_chang_are_bundled() {
        let recorded = bundled().unwrap();
        let rows = |paper: &str| {
            let mut rows: Vec<_> = recorded.iter().filter_map(|one| one.row_of(paper)).collect();
            rows.sort_unstable();
            rows.join(" ")
        };
        assert_eq!(rows("Chung & Moon"), "ESP GHS P2C PRL");
        assert_eq!(rows("Hasan & Chang"), "cfrac espresso gawk p2c");
        let narrow = recorded.iter().filter(|one| one.words == Words::Half);
        assert_eq!(narrow.count(), 7);
    }
}
