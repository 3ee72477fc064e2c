//! Reads a trace file: [`Reader`].

use core::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::codec::Decoder;
use super::error::{ReadError, Reason};
use super::event::Event;
use super::frame::{self, FrameReader};
use super::header::{Header, fill};
use super::ledger::Ledger;
use super::sites::SiteDecoder;
use super::stacks::{self, Stacks};
use super::times::Times;

/// Opens the trace file at `path` and reads its header. Errors, also those of the events, name the
/// file.
///
/// # Errors
/// If the file cannot be read, is not a trace, or claims more events than its length allows.
pub fn open(path: impl AsRef<Path>) -> Result<Reader<BufReader<File>>, ReadError> {
    let path = path.as_ref();
    let open = || {
        let file = File::open(path).map_err(Reason::Io)?;
        // Opening a directory succeeds and reading it fails, with a less clear error.
        if file.metadata().is_ok_and(|about| about.is_dir()) {
            return Err(Reason::Io(std::io::ErrorKind::IsADirectory.into()));
        }
        Ok(file)
    };
    let reader = open().map_err(|reason| ReadError::new(reason, 0, 0)).and_then(Reader::of_file);
    let mut reader = reader.map_err(|error| error.in_file(path))?;
    reader.file = Some(path.to_owned());
    Ok(reader)
}

/// Reads a trace, event by event. It is an iterator; it ends after an error.
///
/// Every event is checked when it is read: freed and reallocated blocks are live, sizes and
/// alignments are valid, and no figure exceeds the header's. After the last event the header's
/// figures must equal those of the events, and the file must end. So a trace that was read to its
/// end without an error is exactly as it was written.
///
/// Memory: 12 bytes for each block live at the peak, and the buffers of a frame (2 MiB); never more
/// because a file claims more. The header's [`peak_blocks`](Header::peak_blocks) bounds it, so a
/// caller can refuse a trace before reading it.
pub struct Reader<R> {
    input: R,
    file: Option<PathBuf>,
    header: Header,
    frames: FrameReader,
    /// Bytes of the frame's content consumed.
    consumed: usize,
    /// Start and end of the current frame in the file.
    frame: (u64, u64),
    decoder: Decoder,
    ledger: Ledger,
    /// The sites of the frame, if the trace has call stacks.
    sites: Option<SiteDecoder>,
    /// The site of the last event read.
    site: u32,
    /// The call stacks, once read; and whether to keep them.
    stacks: Option<Stacks>,
    keep_stacks: bool,
    /// The times of events, once read.
    times: Option<Times>,
    done: bool,
}

/// Omits buffered data, which may be megabytes.
impl<R> fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Reader");
        shown.field("file", &self.file).field("header", &self.header).finish_non_exhaustive()
    }
}

impl Reader<BufReader<File>> {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// As [`open`].
    pub fn of_file(file: File) -> Result<Self, ReadError> {
        let about = file.metadata();
        let length = about.ok().filter(|about| about.is_file()).map(|about| about.len());
        let reader = Self::new(BufReader::new(file))?;
        // An event takes at least one byte of a frame's content.
        let most = length.map_or(u64::MAX, |length| length.saturating_mul(frame::BEST_RATIO));
        if reader.header.events > most {
            let what = "it claims more events than the file can hold";
            return Err(ReadError::new(Reason::Header(what), 0, 0));
        }
        Ok(reader)
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header. A large `input` should be buffered.
    ///
    /// # Errors
    /// If the input fails or is not a trace.
    pub fn new(mut input: R) -> Result<Self, ReadError> {
        let (header, length) =
            Header::read(&mut input).map_err(|reason| ReadError::new(reason, 0, 0))?;
        let sites = header.stacks.then(SiteDecoder::default);
        Ok(Self {
            input,
            file: None,
            header,
            sites,
            site: 0,
            stacks: None,
            keep_stacks: false,
            times: None,
            frames: FrameReader::new(),
            consumed: 0,
            frame: (length, length),
            decoder: Decoder::default(),
            ledger: Ledger::default(),
            done: false,
        })
    }

    /// Makes room for `blocks` live blocks: until there are more, reading takes no more memory for
    /// them. For a program that measures its memory while it reads. O(blocks).
    pub fn reserve(&mut self, blocks: usize) {
        self.ledger.reserve(blocks);
    }

    /// Returns the same reader, with errors that name this file.
    #[must_use]
    pub fn in_file(mut self, file: &Path) -> Self {
        self.file = Some(file.to_owned());
        self
    }

    /// Returns the same reader, which keeps the call stacks: see
    /// [`take_stacks`](Self::take_stacks). They may take hundreds of megabytes.
    #[must_use]
    pub fn with_stacks(mut self) -> Self {
        self.keep_stacks = true;
        self
    }

    /// Returns the site of the last event read, if it is an allocation or reallocation in a trace
    /// with call stacks; otherwise 0.
    #[must_use]
    pub fn site(&self) -> u32 {
        self.site
    }

    /// Returns the call stacks, if there are any and the last event has been read. Each site that
    /// was read is one of their nodes.
    pub fn take_stacks(&mut self) -> Option<Stacks> {
        self.stacks.take()
    }

    /// Returns the times of events, if the trace has them and the last event has been read.
    pub fn take_times(&mut self) -> Option<Times> {
        self.times.take()
    }

    /// Returns the bytes of the header and the frames read so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.frame.1
    }

    /// Returns the header. Its figures are claims until the last event has been read, but no
    /// returned event exceeds one.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, Reason> {
        if self.consumed == self.frames.content().len() {
            if let Some(sites) = &self.sites {
                sites.end()?;
            }
            if self.ledger.counts().events == self.header.events {
                self.check_claims(|claimed, found| found == claimed)?;
                return self.read_rest().map(|()| None);
            }
            return if self.next_frame()? { self.next_event() } else { Err(Reason::Truncated) };
        }
        if self.ledger.counts().events == self.header.events {
            return Err(Reason::Trailing);
        }
        let content = self.frames.content();
        let mut rest = &content[self.consumed..];
        let event = self.decoder.decode(&mut rest, || self.ledger.next_slot())?;
        self.consumed = content.len() - rest.len();
        self.ledger.enter(event).map_err(Reason::Event)?;
        if let Some(sites) = &mut self.sites {
            let asked = matches!(event, Event::Allocate { .. } | Event::Reallocate { .. });
            self.site = if asked { sites.next()? } else { 0 };
        }
        let (claims, counts) = (&self.header, self.ledger.counts());
        if counts.peak_blocks > claims.peak_blocks
            || counts.peak_bytes > claims.peak_bytes
            || counts.threads > claims.threads
        {
            self.check_claims(|claimed, found| found <= claimed)?;
        }
        Ok(Some(event))
    }

    /// Advances to the next frame of events; false if there is none. A frame has at least one byte.
    fn next_frame(&mut self) -> Result<bool, Reason> {
        let found = self.next_piece()?;
        self.consumed = 0;
        if found && let Some(sites) = &mut self.sites {
            let length = sites.read(&mut self.input)?;
            self.frame.1 += length;
        }
        Ok(found)
    }

    /// Reads the parts after the events, to the end of the file.
    fn read_rest(&mut self) -> Result<(), Reason> {
        if self.header.times {
            if !self.next_piece()? {
                return Err(Reason::Truncated);
            }
            self.times = Some(Times::decode(self.frames.content(), self.header.events)?);
        }
        if self.header.stacks {
            return self.read_stacks();
        }
        // Whatever follows is too much, also what is no frame.
        self.frame.0 = self.frame.1;
        match fill(&mut self.input, &mut [0])? {
            0 => Ok(()),
            _ => Err(Reason::Trailing),
        }
    }

    /// Advances to the next frame of any kind; false if there is none.
    fn next_piece(&mut self) -> Result<bool, Reason> {
        self.frame.0 = self.frame.1;
        let length = self.frames.read(&mut self.input)?;
        self.frame.1 += length.unwrap_or(0);
        Ok(length.is_some())
    }

    /// Reads the call stacks, which come last.
    fn read_stacks(&mut self) -> Result<(), Reason> {
        let mut bytes = Vec::new();
        let mut length = 0;
        while self.next_piece()? {
            let content = self.frames.content();
            length += content.len();
            if length > stacks::LONGEST {
                return Err(Reason::Stacks(stacks::TOO_LONG));
            }
            if self.keep_stacks {
                bytes.extend_from_slice(content);
            }
        }
        if length == 0 {
            return Err(Reason::Truncated);
        }
        if self.keep_stacks {
            let stacks = Stacks::decode(&bytes).map_err(Reason::Stacks)?;
            let most = self.sites.as_ref().map_or(0, SiteDecoder::most);
            stacks.check_site(most).map_err(Reason::Stacks)?;
            self.stacks = Some(stacks);
        }
        Ok(())
    }

    /// Compares the header's figures with those of the events: `holds(claimed, found)` must be true
    /// for each.
    fn check_claims(&self, holds: impl Fn(u64, u64) -> bool) -> Result<(), Reason> {
        let (claims, counts) = (&self.header, self.ledger.counts());
        let pairs = [
            ("threads", claims.threads.into(), counts.threads.into()),
            ("live blocks at most", claims.peak_blocks, counts.peak_blocks),
            ("live bytes at most", claims.peak_bytes, counts.peak_bytes),
        ];
        match pairs.into_iter().find(|&(_, claimed, found)| !holds(claimed, found)) {
            Some((what, claimed, found)) => Err(Reason::Claim { what, claimed, found }),
            None => Ok(()),
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let result = self.next_event();
        self.done = !matches!(result, Ok(Some(_)));
        result
            .map_err(|reason| {
                let events = self.ledger.counts().events;
                let error = ReadError::new(reason, events, self.frame.0);
                match &self.file {
                    Some(file) => error.in_file(file),
                    None => error,
                }
            })
            .transpose()
    }
}
