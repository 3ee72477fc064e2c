//! Reads the text format of the malloc lab, with the variations found in circulation:
//! ```text
//!  20000        suggested heap size    ┐
//!  3            number of ids          │ four lines, or two, or none;
//!  4            number of operations   │ often wrong
//!  1            weight                 ┘
//!  a 0 512      allocate the block 0
//!  r 0 640      reallocate it; an unknown one is allocated, to 0 bytes is a free
//!  f 0          free it; -1 is C's null pointer
//! ```
//! Lines may end in CRLF, blank lines are skipped, blocks may be live at the end.

use std::collections::HashMap;
use std::io::{BufRead, Read};

use anyhow::{Context, anyhow, bail, ensure};
use pagewise::trace::{Event, Slots};

/// Alignment of `malloc` on a 64-bit machine, bytes.
const ALIGN: u32 = 16;
/// Longest line; a file with a longer one is not in this format.
const LONGEST_LINE: u64 = 256;
/// Maximum number of header lines.
const HEADERS: usize = 4;

/// Limits on what is imported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    /// Number of ids, by which memory is bounded.
    pub(super) blocks: u64,
    /// Number of operations, and of lines after the header: a device or a pipe may have no end.
    pub(super) events: u64,
}

/// Passes the events of a file to `emit`; returns a remark about the file, if any.
///
/// # Errors
/// `LINE: reason`, or an error of reading or of `emit`.
pub(super) fn import(
    mut input: impl BufRead,
    most: Most,
    mut emit: impl FnMut(Event) -> anyhow::Result<()>,
) -> anyhow::Result<Option<String>> {
    let mut import = Import::default();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let length = input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        if length.with_context(|| format!("{number}"))? == 0 {
            break;
        }
        let text = std::str::from_utf8(&line).ok().filter(|_| (line.len() as u64) < LONGEST_LINE);
        let text = text.with_context(|| format!("{number}: not a line of a malloc lab file"))?;
        import.line(text, &mut emit).with_context(|| format!("{number}"))?;
        if import.blocks.len() as u64 > most.blocks {
            bail!("{number}: more blocks than --memory allows");
        }
        if import.operations > most.events {
            bail!("{number}: more operations than --most-events allows");
        }
        // Blank lines are no operations, but may have no end either.
        if number > most.events.saturating_add(HEADERS as u64) {
            bail!("{number}: more lines than --most-events allows");
        }
    }
    Ok(import.remark())
}

#[derive(Default)]
struct Import {
    headers: Vec<u64>,
    operations: u64,
    slots: Slots,
    /// The slot of each block seen; `None` after a reallocation to 0 bytes, after which the id
    /// stands for C's null pointer.
    blocks: HashMap<u64, Option<u32>>,
}

impl Import {
    fn line(
        &mut self,
        line: &str,
        emit: &mut impl FnMut(Event) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            [] => return Ok(()),
            ["a", id, size] => self.allocate(number(id)?, number(size)?, emit)?,
            ["r", id, size] => self.reallocate(number(id)?, number(size)?, emit)?,
            ["f", "-1"] => {}
            ["f", id] => self.free(number(id)?, emit)?,
            [header] if self.operations == 0 && self.headers.len() < HEADERS => {
                self.headers.push(number(header)?);
                return Ok(());
            }
            _ => bail!("'{}' is not 'a ID SIZE', 'r ID SIZE' or 'f ID'", line.trim()),
        }
        self.operations += 1;
        Ok(())
    }

    fn allocate(
        &mut self,
        id: u64,
        size: u64,
        emit: &mut impl FnMut(Event) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        ensure!(!matches!(self.blocks.get(&id), Some(Some(_))), "block {id} is already allocated");
        let slot = self.slots.take().context("more than 2^28 blocks are live")?;
        self.blocks.insert(id, Some(slot));
        emit(Event::Allocate { slot, size, align: ALIGN })
    }

    fn reallocate(
        &mut self,
        id: u64,
        size: u64,
        emit: &mut impl FnMut(Event) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self.blocks.get(&id) {
            Some(&Some(_)) if size == 0 => {
                self.free(id, emit)?;
                self.blocks.insert(id, None);
                Ok(())
            }
            Some(&Some(slot)) => emit(Event::Reallocate { slot, size }),
            _ => self.allocate(id, size, emit),
        }
    }

    fn free(
        &mut self,
        id: u64,
        emit: &mut impl FnMut(Event) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self.blocks.remove(&id) {
            Some(Some(slot)) => {
                self.slots.free(slot);
                emit(Event::Free { slot })
            }
            Some(None) => Ok(()),
            None => bail!("block {id} is not allocated"),
        }
    }

    /// A header of four lines gives the number of operations in the third, one of two in the
    /// second.
    fn remark(&self) -> Option<String> {
        let claimed = match self.headers[..] {
            [_, _, claimed, _] | [_, claimed] => claimed,
            _ => return None,
        };
        (claimed != self.operations).then(|| {
            format!("its header claims {claimed} operations, but it has {}", self.operations)
        })
    }
}

fn number(word: &str) -> anyhow::Result<u64> {
    // The parser's own reason speaks of digits and integers.
    word.parse().map_err(|_| anyhow!("'{word}' is not a number from 0 to 2^64 - 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Vec<Event>, Option<String>), String> {
        let mut events = Vec::new();
        let remark = import(text.as_bytes(), Most { blocks: 3, events: 6 }, |event| {
            events.push(event);
            Ok(())
        });
        remark.map(|remark| (events, remark)).map_err(|error| format!("{error:#}"))
    }

    const fn a(slot: u32, size: u64) -> Event {
        Event::Allocate { slot, size, align: ALIGN }
    }

    #[test]
    fn headers_of_any_length_are_taken() {
        let body = "a 0 512\r\na 7 128\r\n\r\nr 0 640\r\nf 7\r\n";
        let events = vec![
            a(0, 512),
            a(1, 128),
            Event::Reallocate { slot: 0, size: 640 },
            Event::Free { slot: 1 },
        ];
        for header in ["", "2\r\n4\r\n", "20000\n2\n4\n1\n"] {
            assert_eq!(read(&format!("{header}{body}")), Ok((events.clone(), None)));
        }
        let (_, remark) = read(&format!("1\n2\n99\n1\n{body}")).unwrap();
        assert_eq!(remark.unwrap(), "its header claims 99 operations, but it has 4");
    }

    #[test]
    fn variations_in_circulation_are_accepted() {
        let (events, _) = read("r 3 10\nf -1\nr 3 0\nf 3\nr 3 5\n").unwrap();
        assert_eq!(events, [a(0, 10), Event::Free { slot: 0 }, a(0, 5)]);
    }

    #[test]
    fn errors_name_line_and_reason() {
        for (text, error) in [
            ("a 0 1\na 0 2\n", "2: block 0 is already allocated"),
            ("1\n2\nf 0\n", "3: block 0 is not allocated"),
            ("a 0 x\n", "1: 'x' is not a number from 0 to 2^64 - 1"),
            ("a 0 1\nr 0 -5\n", "2: '-5' is not a number from 0 to 2^64 - 1"),
            (
                "a 0 18446744073709551616\n",
                "1: '18446744073709551616' is not a number from 0 to 2^64 - 1",
            ),
            ("a 0 1\n5\n", "2: '5' is not 'a ID SIZE', 'r ID SIZE' or 'f ID'"),
            ("a 0\n", "1: 'a 0' is not 'a ID SIZE', 'r ID SIZE' or 'f ID'"),
        ] {
            assert_eq!(read(text).unwrap_err(), error);
        }
        let many = "a 0 1\na 1 1\na 2 1\na 3 1\n";
        assert_eq!(read(many).unwrap_err(), "4: more blocks than --memory allows");
        let many = "a 0 1\n".to_owned() + &"f -1\n".repeat(6);
        assert_eq!(read(&many).unwrap_err(), "7: more operations than --most-events allows");
        for without_end in ["\n", " \r\n"] {
            let blank = without_end.repeat(1000);
            assert_eq!(read(&blank).unwrap_err(), "11: more lines than --most-events allows");
        }
        let long = format!("a 0 1\n{}", "9".repeat(100_000));
        assert_eq!(read(&long).unwrap_err(), "2: not a line of a malloc lab file");
    }
}
