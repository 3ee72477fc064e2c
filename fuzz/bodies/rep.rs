//! Any lines read as a malloc lab file give events that fit a trace, or an error; and the blocks
//! live at the end are those of a plain model of the format.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use arbitrary::{Arbitrary, Unstructured};
use pagewise::trace::{Event, Ledger};

#[path = "../../lab/src/import/rep.rs"]
mod format;

/// How much the import may remember and read.
const MOST: format::Most = format::Most { blocks: 64, events: 1 << 12 };

#[derive(Debug, Arbitrary)]
enum Line {
    Header(u16),
    Allocate { id: u8, size: u32 },
    AllocateAny { id: u64, size: u64 },
    Reallocate { id: u8, size: u16 },
    Free { id: u8 },
    FreeNull,
    Blank,
    Text(String),
}

pub(crate) fn run(data: &[u8]) {
    let Ok((crlf, lines)) = <(bool, Vec<Line>)>::arbitrary_take_rest(Unstructured::new(data))
    else {
        return;
    };
    let end = if crlf { "\r\n" } else { "\n" };
    let mut text = String::new();
    for line in &lines {
        match line {
            Line::Header(number) => write!(text, "{number}"),
            Line::Allocate { id, size } => write!(text, "a {id} {size}"),
            Line::AllocateAny { id, size } => write!(text, "a {id} {size}"),
            Line::Reallocate { id, size } => write!(text, "r {id} {size}"),
            Line::Free { id } => write!(text, "f {id}"),
            Line::FreeNull => write!(text, "f -1"),
            Line::Blank => Ok(()),
            Line::Text(any) => write!(text, "{any}"),
        }
        .expect("a string takes it");
        text += end;
    }

    let mut ledger = Ledger::new();
    let mut live = HashSet::new();
    let read = format::import(text.as_bytes(), MOST, |event| {
        match event {
            Event::Allocate { slot, .. } => assert!(live.insert(slot)),
            Event::Free { slot } => assert!(live.remove(&slot)),
            _ => {}
        }
        // Impossible sizes are refused here, as by a writer.
        Ok(ledger.enter(event)?)
    });
    if lines.iter().all(|line| !matches!(line, Line::Text(_))) {
        match (&read, model(&lines)) {
            (Ok(_), Some(blocks)) => assert_eq!(live.len(), blocks, "{text}"),
            (Ok(_), None) => panic!("a fault was not noticed in {text}"),
            (Err(_), None) => {}
            // Limits that the model lacks.
            (Err(error), Some(_)) => {
                let error = format!("{error:#}");
                let known = ["more blocks than", "more operations than", "bytes"]
                    .iter()
                    .any(|part| error.contains(part));
                assert!(known, "{error} in {text}");
            }
        }
    }
}

/// Returns the number of blocks live at the end; `None` if the lines are invalid.
fn model(lines: &[Line]) -> Option<usize> {
    let mut blocks: HashMap<u64, bool> = HashMap::new();
    let (mut headers, mut operations) = (0, 0);
    for line in lines {
        match *line {
            Line::Header(_) => {
                headers += 1;
                if operations > 0 || headers > 4 {
                    return None;
                }
                continue;
            }
            Line::Blank => continue,
            Line::Allocate { id: _, .. } | Line::AllocateAny { .. } => {
                let id = match *line {
                    Line::Allocate { id, .. } => id.into(),
                    Line::AllocateAny { id, .. } => id,
                    _ => return None,
                };
                if blocks.insert(id, true) == Some(true) {
                    return None;
                }
            }
            // To size 0, a live block is freed; an unknown one is allocated.
            Line::Reallocate { id, size } => {
                let lives = size > 0 || blocks.get(&id.into()) != Some(&true);
                blocks.insert(id.into(), lives);
            }
            Line::Free { id } => drop(blocks.remove(&id.into())?),
            Line::FreeNull => {}
            Line::Text(_) => return None,
        }
        operations += 1;
    }
    Some(blocks.values().filter(|&&lives| lives).count())
}
