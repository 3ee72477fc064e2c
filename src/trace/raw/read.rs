//! Reads a raw log: [`LogReader`].

use core::mem::offset_of;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::{HEAD, Head, MAGIC, Record, TEXT, VERSION};
use crate::trace::error::{ReadError, Reason};
use crate::trace::header::{Origin, fill};

/// Who wrote a raw log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOrigin {
    /// Program, arguments, date, pointer width.
    pub origin: Origin,
    /// Number of the process.
    pub process: u32,
    /// Number of its parent.
    pub parent: u32,
    /// When its log began: nanoseconds since 1970.
    pub started: u64,
    /// The log could not grow, and the rest of the program's run is missing.
    pub stopped: bool,
}

/// Opens the raw log `path` and reads its head. Errors, also those of the records, name the file.
///
/// # Errors
/// If the file cannot be read or is not a raw log of a machine like this one.
pub fn open(path: impl AsRef<Path>) -> Result<LogReader<BufReader<File>>, ReadError> {
    let path = path.as_ref();
    let reader = File::open(path)
        .map_err(|error| ReadError::new(Reason::Io(error), 0, 0))
        .and_then(|file| LogReader::new(BufReader::with_capacity(1 << 16, file)));
    let mut reader = reader.map_err(|error| error.in_file(Some(path)))?;
    reader.file = Some(path.to_owned());
    Ok(reader)
}

/// Reads a raw log, record by record, each with the thread that made it. It is an iterator; after
/// an error it ends. The zeros a log ends with are its end.
pub struct LogReader<R> {
    input: R,
    file: Option<PathBuf>,
    origin: LogOrigin,
    /// Records read, holes included.
    places: u64,
    holes: u64,
    done: bool,
}

impl<R: Read> LogReader<R> {
    /// Reads the head. A large `input` should be buffered.
    ///
    /// # Errors
    /// If the input fails, or is not a raw log of a machine like this one.
    pub fn new(mut input: R) -> Result<Self, ReadError> {
        let failed = |reason| ReadError::new(reason, 0, 0);
        let mut head = vec![0; HEAD];
        let found = fill(&mut input, &mut head).map_err(failed)?;
        if found < 8 || word(&head, offset_of!(Head, magic)) != MAGIC {
            return Err(failed(Reason::NotALog));
        }
        if found < HEAD {
            return Err(failed(Reason::Truncated));
        }
        let version = half(&head, offset_of!(Head, version));
        if version != VERSION {
            return Err(failed(Reason::Version(version.try_into().unwrap_or(u16::MAX))));
        }
        let origin = origin(&head);
        Ok(Self { input, file: None, origin, places: 0, holes: 0, done: false })
    }

    /// Who wrote the log.
    #[must_use]
    pub fn origin(&self) -> &LogOrigin {
        &self.origin
    }

    /// Records found so far that were begun and never completed: their thread ended, or its
    /// process was killed, at that moment.
    #[must_use]
    pub fn holes(&self) -> u64 {
        self.holes
    }

    fn next_record(&mut self) -> Result<Option<(u32, Record)>, Reason> {
        let mut empty = 0;
        loop {
            let mut bytes = [0; 24];
            let found = fill(&mut self.input, &mut bytes)?;
            if found == 0 {
                return Ok(None);
            }
            if found < bytes.len() {
                return if bytes == [0; 24] { Ok(None) } else { Err(Reason::Truncated) };
            }
            self.places += 1;
            let words = [0, 8, 16].map(|at| word(&bytes, at));
            if words[0] != 0 {
                self.holes += empty;
                return Record::decode(words).map(Some).map_err(Reason::Record);
            }
            empty += 1;
        }
    }
}

impl<R: Read> Iterator for LogReader<R> {
    type Item = Result<(u32, Record), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let result = self.next_record();
        self.done = !matches!(result, Ok(Some(_)));
        result
            .map_err(|reason| {
                let before = self.places.saturating_sub(1);
                ReadError::new(reason, before, HEAD as u64 + before * 24)
                    .in_file(self.file.as_deref())
            })
            .transpose()
    }
}

/// Takes the head apart. Whatever its bytes, there is an answer.
fn origin(head: &[u8]) -> LogOrigin {
    let text = &head[offset_of!(Head, text)..];
    let path_len = (half(head, offset_of!(Head, path)) as usize).min(TEXT);
    let (path, rest) = text.split_at(path_len);
    let len = (half(head, offset_of!(Head, arguments)) as usize).min(rest.len());
    let command = rest[..len].strip_suffix(&[0]).unwrap_or(&rest[..len]);
    let mut words = command.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let called = words.next().filter(|name| !name.is_empty());
    let called = called.unwrap_or_else(|| String::from_utf8_lossy(path));
    // A login shell is called `-sh`.
    let program = called.rsplit('/').next().unwrap_or_default().trim_start_matches('-');
    let started = word(head, offset_of!(Head, started));
    LogOrigin {
        origin: Origin {
            program: program.to_owned(),
            arguments: words.map(|word| word.into_owned()).collect(),
            date: started / 1_000_000_000,
            pointer_width: half(head, offset_of!(Head, pointer_width)) as u8,
            note: String::new(),
        },
        process: half(head, offset_of!(Head, process)),
        parent: half(head, offset_of!(Head, parent)),
        started,
        stopped: half(head, offset_of!(Head, stopped)) != 0,
    }
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |field| u32::from_ne_bytes(*field))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |field| u64::from_ne_bytes(*field))
}
