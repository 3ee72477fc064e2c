//! Reads a raw log: [`LogReader`].

use core::fmt;
use core::mem::offset_of;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::form::{Form, Role, role};
use super::head::{
    HEAD, Head, MAGIC, Stopped, TEXT, VERSION, VERSION_WITH_STACKS, WITHOUT_TIMES, WORD,
};
use super::record::Record;
use super::side::{self, Side};
use super::stacks::Tree;
use crate::error::{ReadError, Reason};
use crate::header::{Origin, fill};
use crate::stacks::Stacks;

/// The origin of a raw log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOrigin {
    /// Program, arguments, date, pointer width.
    pub origin: Origin,
    /// Process id.
    pub process: u32,
    /// Parent's process id.
    pub parent: u32,
    /// Start of the log: nanoseconds since 1970.
    pub started: u64,
    /// Why the log ended before the process, if it did: the rest of the run is missing.
    pub stopped: Option<Stopped>,
}

/// Asks the recorder that writes the log at `path` to stop. The program continues.
///
/// # Errors
/// If the file cannot be written, or is not a raw log with a complete head; then it is unchanged.
pub fn stop(path: impl AsRef<Path>) -> io::Result<()> {
    const AT: usize = offset_of!(Head, stopped);
    let mut file = File::options().read(true).write(true).open(path)?;
    let mut head = Vec::new();
    (&file).take(AT as u64 + 4).read_to_end(&mut head)?;
    if head.len() < AT + 4 || word(&head, offset_of!(Head, magic)) != MAGIC {
        let reason = ReadError::new(Reason::NotALog, 0, 0);
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    // A log that stopped by itself gives its own reason.
    if half(&head, AT) == 0 {
        file.seek(SeekFrom::Start(AT as u64))?;
        file.write_all(&Stopped::Asked.code().to_ne_bytes())?;
    }
    Ok(())
}

/// Returns why the log at `path` has stopped; `None` if it has not, or has no complete head yet.
///
/// # Errors
/// If the file cannot be read.
pub fn stopped(path: impl AsRef<Path>) -> io::Result<Option<Stopped>> {
    const AT: usize = offset_of!(Head, stopped);
    let mut head = Vec::new();
    File::open(path)?.take(AT as u64 + 4).read_to_end(&mut head)?;
    Ok(if head.len() < AT + 4 { None } else { Stopped::of_code(half(&head, AT)) })
}

/// Returns the bytes of records so far in the log at `path`, while it is being written. O(log
/// length).
///
/// # Errors
/// If the file cannot be read.
pub fn written(path: impl AsRef<Path>) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let words = file.metadata()?.len().saturating_sub(HEAD as u64) / WORD as u64;
    // Places are written in order, except for a few that threads have claimed but not written yet.
    let (mut written, mut empty) = (0, words);
    while written < empty {
        let middle = written + (empty - written) / 2;
        let mut bytes = [0; WORD];
        file.seek(SeekFrom::Start(HEAD as u64 + middle * WORD as u64))?;
        file.read_exact(&mut bytes)?;
        if bytes == [0; WORD] { empty = middle } else { written = middle + 1 }
    }
    Ok(written * WORD as u64)
}

/// Opens the raw log at `path` and reads its head. Errors, also those of the records, name the
/// file.
///
/// # Errors
/// If the file cannot be read or is not a raw log of a machine like this one.
pub fn open(path: impl AsRef<Path>) -> Result<LogReader<BufReader<File>>, ReadError> {
    let path = path.as_ref();
    let reader = File::open(path)
        .map_err(|error| ReadError::new(Reason::Io(error), 0, 0))
        .and_then(|file| LogReader::new(BufReader::with_capacity(AHEAD * WORD, file)));
    let mut reader = reader.map_err(|error| error.in_file(path))?;
    reader.file = Some(path.to_owned());
    Ok(reader)
}

/// Words read at once.
const AHEAD: usize = 8192;

/// Maximum number of empty words: 64 MiB. A recorder leaves at most a chunk of 16 MiB at the end,
/// and a few words for each thread that is killed; a crash of the machine, or a sparse file, any
/// number.
const MOST_EMPTY: u64 = 8 << 20;

/// Reads a raw log, record by record, each with the thread that made it. It is an iterator; it ends
/// after an error. Zeros at the end of a log end it, and so do more than 64 MiB of zeros in all and
/// a truncated word.
pub struct LogReader<R> {
    input: R,
    file: Option<PathBuf>,
    origin: LogOrigin,
    form: Form,
    /// The stacks read so far; `None` if the log has none.
    tree: Option<Tree>,
    /// Whether the log has records other than events.
    has_sides: bool,
    /// The first time, and the last one in nanoseconds since.
    began: Option<u64>,
    nanoseconds: Option<u64>,
    /// The node given by the previous word, and the position of the record it is for, in words.
    announced: (u64, u64),
    /// The site of the last record read.
    site: u32,
    /// Further words of the last side record.
    further: Vec<u64>,
    /// Words read ahead, as bytes; their number, and how many of them were consumed.
    read: Vec<u8>,
    taken: usize,
    filled: usize,
    /// Words of the log before those.
    before: u64,
    /// The last record read, or the place where one was expected, in words.
    at: u64,
    records: u64,
    holes: u64,
    /// Words so far that are 0: places that were claimed but not written.
    empty: u64,
    done: bool,
}

impl<R> fmt::Debug for LogReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("LogReader");
        shown.field("file", &self.file).field("origin", &self.origin).finish_non_exhaustive()
    }
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
        let [plain, with_stacks] = WITHOUT_TIMES;
        if ![VERSION, VERSION_WITH_STACKS, plain, with_stacks].contains(&version) {
            return Err(failed(Reason::Header("the log is of another version of pagewise")));
        }
        let pointer_width = half(&head, offset_of!(Head, pointer_width));
        if ![32, 64].contains(&pointer_width) {
            return Err(failed(Reason::Header("pointers have neither 32 nor 64 bits")));
        }
        let form = Form::new(pointer_width);
        let origin = origin(&head);
        let stacks = [VERSION_WITH_STACKS, with_stacks].contains(&version);
        let tree = stacks.then(|| Tree::new(executable(&head)));
        Ok(Self {
            input,
            file: None,
            origin,
            form,
            tree,
            has_sides: version != plain,
            began: None,
            nanoseconds: None,
            announced: (0, 0),
            site: 0,
            further: Vec::new(),
            read: vec![0; AHEAD * WORD],
            taken: 0,
            filled: 0,
            before: 0,
            at: 0,
            records: 0,
            holes: 0,
            empty: 0,
            done: false,
        })
    }

    /// Returns the origin of the log.
    #[must_use]
    pub fn origin(&self) -> &LogOrigin {
        &self.origin
    }

    /// Returns the number of places found so far with incomplete records: their threads ended, or
    /// their process was killed, at that moment, or the file was truncated there.
    #[must_use]
    pub fn holes(&self) -> u64 {
        self.holes
    }

    /// Returns whether the log ended because more than 64 MiB of it were never written. Records may
    /// follow.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.empty > MOST_EMPTY
    }

    /// Returns the site of the last record read: a node of the tree of [`stacks`](Self::stacks),
    /// from 1; 0 if its stack is unknown.
    #[must_use]
    pub fn site(&self) -> u32 {
        self.site
    }

    /// Returns the nanoseconds between the first clock sample and the last one before the last
    /// record read; `None` if there was none. May decrease slightly: threads do not wait for each
    /// other.
    #[must_use]
    pub fn nanoseconds(&self) -> Option<u64> {
        self.nanoseconds
    }

    /// Returns the call stacks of the records so far; `None` if the log has none.
    #[must_use]
    pub fn stacks(&self) -> Option<&Stacks> {
        self.tree.as_ref().map(Tree::stacks)
    }

    /// Returns the word at `index` among those read ahead, if there are that many.
    #[inline]
    fn ahead(&self, index: usize) -> Option<u64> {
        let (words, _) = self.read[..self.filled * WORD].as_chunks();
        words.get(index).map(|bytes| u64::from_ne_bytes(*bytes))
    }

    /// Returns the next word; `None` at the end of the file.
    #[inline]
    fn take(&mut self) -> Result<Option<u64>, Reason> {
        if self.taken == self.filled {
            self.read_ahead()?;
        }
        let word = self.ahead(self.taken);
        self.taken += usize::from(word.is_some());
        Ok(word)
    }

    /// Reads the next words; none at the end of the file.
    #[cold]
    fn read_ahead(&mut self) -> Result<(), Reason> {
        self.before += self.filled as u64;
        (self.taken, self.filled) = (0, 0);
        let found = fill(&mut self.input, &mut self.read)?;
        self.filled = found / WORD;
        // A truncated word.
        let rest = &self.read[self.filled * WORD..found];
        self.holes += u64::from(rest.iter().any(|&byte| byte != 0));
        Ok(())
    }

    /// Returns the next record in the common case: one word, with or without a stack, read ahead.
    #[inline]
    fn usual(&mut self) -> Option<(u32, Record)> {
        let mut at = self.taken;
        let mut word = self.ahead(at)?;
        let mut site = 0;
        if self.has_sides
            && let Some(node) = side::node_of_stack(word)
        {
            at += 1;
            word = self.ahead(at)?;
            site = self.named(node);
        }
        let found = self.form.decode_short(word)?;
        (self.taken, self.site) = (at + 1, site);
        self.at = self.before + at as u64;
        self.records += 1;
        Some(found)
    }

    #[cold]
    fn next_record(&mut self) -> Result<Option<(u32, Record)>, Reason> {
        // Words before this record that belong to none: places that were never written, and further
        // words whose first word was not written.
        let (mut empty, mut torn) = (false, false);
        loop {
            let Some(word) = self.take()? else {
                // The zeros at the end are not a hole.
                self.holes += u64::from(torn);
                return Ok(None);
            };
            self.at = self.before + self.taken as u64 - 1;
            if self.has_sides
                && let Some(len) = side::further(word)
            {
                self.holes += u64::from(empty || torn);
                (empty, torn) = (false, false);
                self.side(word, len)?;
                continue;
            }
            let len = match role(word) {
                Role::First(len) => len,
                Role::Empty => {
                    empty = true;
                    self.empty += 1;
                    if self.is_cut() {
                        return Ok(None);
                    }
                    continue;
                }
                Role::Further => {
                    torn = true;
                    continue;
                }
            };
            self.holes += u64::from(empty || torn);
            (empty, torn) = (false, false);
            let mut words = [word, 0, 0];
            let mut found = 1;
            while found < len {
                match self.take()? {
                    Some(word) if role(word) == Role::Further => words[found] = word,
                    next => {
                        // Examine it again.
                        self.taken -= usize::from(next.is_some());
                        break;
                    }
                }
                found += 1;
            }
            if found == len {
                let (node, at) = self.announced;
                self.site = if at == self.at { self.named(node) } else { 0 };
                let decoded = self.form.decode(&words[..len]).map_err(Reason::Record)?;
                self.records += 1;
                return Ok(Some(decoded));
            }
            self.holes += 1;
        }
    }

    fn named(&self, node: u64) -> u32 {
        self.tree.as_ref().map_or(0, |tree| tree.site(node))
    }

    /// Reads the remaining `len` words of a side record.
    fn side(&mut self, first: u64, len: usize) -> Result<(), Reason> {
        self.further.clear();
        while self.further.len() < len {
            match self.take()? {
                Some(word) if role(word) == Role::Further => self.further.push(word),
                next => {
                    self.taken -= usize::from(next.is_some());
                    self.holes += 1;
                    return Ok(());
                }
            }
        }
        match side::decode(first, &self.further).map_err(Reason::Record)? {
            Side::Stack { node } => self.announced = (node, self.at + 1),
            Side::Time { microseconds } => {
                let began = *self.began.get_or_insert(microseconds);
                self.nanoseconds = Some(side::since(began, microseconds) * 1000);
            }
            told => {
                if let Some(tree) = &mut self.tree {
                    tree.learn(told).map_err(Reason::Record)?;
                }
            }
        }
        Ok(())
    }
}

impl<R: Read> Iterator for LogReader<R> {
    type Item = Result<(u32, Record), ReadError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.usual() {
            Some(found) if !self.done => Some(Ok(found)),
            _ => self.unusual(),
        }
    }
}

impl<R: Read> LogReader<R> {
    #[cold]
    fn unusual(&mut self) -> Option<Result<(u32, Record), ReadError>> {
        if self.done {
            return None;
        }
        let result = self.next_record();
        self.done = !matches!(result, Ok(Some(_)));
        result
            .map_err(|reason| {
                let offset = HEAD as u64 + self.at * WORD as u64;
                let error = ReadError::new(reason, self.records, offset);
                match &self.file {
                    Some(file) => error.in_file(file),
                    None => error,
                }
            })
            .transpose()
    }
}

/// Returns the program's path.
fn executable(head: &[u8]) -> String {
    let text = &head[offset_of!(Head, text)..];
    let len = (half(head, offset_of!(Head, path)) as usize).min(TEXT);
    String::from_utf8_lossy(&text[..len]).into_owned()
}

/// Decodes the head; accepts any bytes.
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
        stopped: Stopped::of_code(half(head, offset_of!(Head, stopped))),
    }
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |field| u32::from_ne_bytes(*field))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |field| u64::from_ne_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: u32 = 32;
    const FORM: Form = Form::new(WIDTH);

    /// Returns a log with these words after its head.
    fn log(words: &[u64]) -> Vec<u8> {
        let mut log = vec![0; HEAD];
        log[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        log[8..12].copy_from_slice(&VERSION.to_ne_bytes());
        let at = offset_of!(Head, pointer_width);
        log[at..at + 4].copy_from_slice(&WIDTH.to_ne_bytes());
        let started = 1_700_000_000_999_999_999_u64;
        let at = offset_of!(Head, started);
        log[at..at + 8].copy_from_slice(&started.to_ne_bytes());
        log.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        log
    }

    #[test]
    fn written_returns_the_bytes_so_far() {
        // (Not with the crate `tempfile`: these tests also run without dev-dependencies.)
        let file = std::env::temp_dir().join(format!("pagewise-written-{}", std::process::id()));
        for (words, empty) in [(0, 0), (0, 9), (1, 0), (1, 1), (5, 6), (100, 29), (64, 1000)] {
            let mut bytes = log(&[vec![1; words], vec![0; empty]].concat());
            bytes.extend([1; 3]);
            std::fs::write(&file, bytes).unwrap();
            assert_eq!(written(&file).unwrap(), words as u64 * 8, "{words}, {empty}");
        }
        std::fs::remove_file(&file).unwrap();
    }

    /// A log keeps its own reason for stopping; a request to stop does not change it.
    #[test]
    fn a_log_is_asked_to_stop_once() {
        let file = std::env::temp_dir().join(format!("pagewise-stop-{}", std::process::id()));
        for before in [None, Some(Stopped::Limit), Some(Stopped::Failed(28)), Some(Stopped::Asked)]
        {
            let mut bytes = log(&[1, 2]);
            let at = offset_of!(Head, stopped);
            bytes[at..at + 4].copy_from_slice(&before.map_or(0, Stopped::code).to_ne_bytes());
            std::fs::write(&file, &bytes).unwrap();
            stop(&file).unwrap();
            let after = std::fs::read(&file).unwrap();
            let reader = LogReader::new(&after[..]).unwrap();
            assert_eq!(reader.origin().stopped, Some(before.unwrap_or(Stopped::Asked)));
            assert_eq!(stopped(&file).unwrap(), reader.origin().stopped);
            bytes[at..at + 4].copy_from_slice(&after[at..at + 4]);
            assert_eq!(after, bytes, "nothing else was written");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(stop(&file).is_err());
    }

    /// The bytes where a log has its reason were overwritten in any file.
    #[test]
    fn only_a_log_is_asked_to_stop() {
        let file = std::env::temp_dir().join(format!("pagewise-no-log-{}", std::process::id()));
        let without_magic = [0; 8].iter().copied().chain(log(&[1]).split_off(8)).collect();
        let short = log(&[])[..offset_of!(Head, stopped) + 3].to_vec();
        for bytes in [without_magic, short, vec![0; 100], b"a text".repeat(20), Vec::new()] {
            std::fs::write(&file, &bytes).unwrap();
            let error = stop(&file).unwrap_err();
            assert_eq!(error.to_string(), "not a raw log of this kind of machine");
            assert_eq!(std::fs::read(&file).unwrap(), bytes, "it is unchanged");
        }
        std::fs::remove_file(&file).unwrap();
    }

    /// Records, complete or not, may be anywhere relative to the words read at once.
    #[test]
    fn records_are_read_across_buffer_boundaries() {
        let node = side::node(1, 0, 0x1234);
        let plain = FORM.short(1, Record::Freeing { address: 16 });
        let long = FORM.long(1, Record::Allocated { address: 32, size: 1 << 20, align_log2: 4 });
        for before in AHEAD - 4..=AHEAD + 1 {
            let mut words = node.to_vec();
            words.resize(before, plain);
            // Stack and record; a long one without its end, and complete; one word.
            words.extend([side::stack(1), plain, long.words[0], side::stack(1)]);
            words.extend([long.words[0], long.words[1], plain]);
            let mut log = log(&words);
            log[8..12].copy_from_slice(&VERSION_WITH_STACKS.to_ne_bytes());
            let mut reader = LogReader::new(&log[..]).unwrap();
            let mut sites = Vec::new();
            while let Some(record) = reader.next() {
                sites.push((record.unwrap().1, reader.site()));
            }
            let free = Record::Freeing { address: 16 };
            let allocation = Record::Allocated { address: 32, size: 1 << 20, align_log2: 4 };
            assert_eq!(sites[before - 3..], [(free, 1), (allocation, 1), (free, 0)], "{before}");
            assert_eq!(sites.len(), before);
            assert_eq!(reader.holes(), 1);
        }
    }

    /// A sparse file of a terabyte takes no space, but reading it to its end took minutes.
    #[test]
    fn a_log_of_zeros_is_not_read_to_its_end() {
        let words = [FORM.short(1, Record::Freeing { address: 16 })];
        let endless = |zeros: u64| io::Cursor::new(log(&words)).chain(io::repeat(0).take(zeros));
        let mut whole = LogReader::new(endless(MOST_EMPTY * WORD as u64)).unwrap();
        assert_eq!(whole.by_ref().map(Result::unwrap).count(), 1);
        assert_eq!((whole.holes(), whole.is_cut()), (0, false));
        let mut sparse = LogReader::new(endless(u64::MAX)).unwrap();
        assert_eq!(sparse.by_ref().map(Result::unwrap).count(), 1);
        assert!(sparse.is_cut());
    }

    #[test]
    fn a_reader_returns_the_origin_of_the_log() {
        let log = log(&[]);
        let reader = LogReader::new(&log[..]).unwrap();
        assert_eq!(reader.origin().origin.date, 1_700_000_000);
        assert!(format!("{reader:?}").starts_with("LogReader { file: None, origin: "));
    }
}
