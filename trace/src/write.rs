//! Writes a trace file: [`Writer`].

use core::fmt;
use std::io::{self, Seek, SeekFrom, Write};

use super::codec::Encoder;
use super::error::WriteError;
use super::event::Event;
use super::frame;
use super::header::{Header, Origin};
use super::ledger::{Counts, Ledger};
use super::sites::SiteEncoder;
use super::stacks::Stacks;
use super::times::Sampler;

/// A frame is closed when its content reaches this many bytes: the rest always has room for an
/// event.
const FRAME: usize = frame::LARGEST - 256;

/// Writes a trace, event by event. The file is complete when [`finish`](Self::finish) returns.
///
/// Every event is checked, so that a written trace can be read and replayed. Memory is bounded by
/// the peak number of live blocks.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::io::Cursor;
/// use pagewise_trace::{Event, Origin, Reader, Writer};
///
/// let mut file = Cursor::new(Vec::new());
/// let mut writer = Writer::new(&mut file, Origin::default())?;
/// writer.write(Event::Allocate { slot: 0, size: 100, align: 16 })?;
/// writer.write(Event::Free { slot: 0 })?;
/// let header = writer.finish()?;
/// assert_eq!(header.peak_bytes, 100);
///
/// file.set_position(0);
/// let events: Result<Vec<_>, _> = Reader::new(file)?.collect();
/// assert_eq!(events?.len(), 2);
/// # Ok(())
/// # }
/// ```
pub struct Writer<W> {
    out: W,
    /// Position of the header in `out`.
    start: u64,
    /// Bytes of the header and the frames written.
    length: u64,
    origin: Origin,
    ledger: Ledger,
    encoder: Encoder,
    content: Vec<u8>,
    /// The sites of the events in `content`, if the trace has call stacks.
    sites: Option<SiteEncoder>,
    times: Sampler,
    /// Whether a part of the file could not be written.
    is_lost: bool,
}

/// Omits unwritten data, which may be a megabyte.
impl<W> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Writer");
        shown.field("origin", &self.origin).field("length", &self.length).finish_non_exhaustive()
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Begins a trace at the current position of `out`.
    ///
    /// # Errors
    /// If the output fails, or the texts of `origin` exceed 1 MiB.
    pub fn new(out: W, origin: Origin) -> Result<Self, WriteError> {
        Self::begin(out, origin, false)
    }

    /// Begins a trace with call stacks: [`write_at`](Self::write_at) takes the site of each
    /// allocation, [`finish_with`](Self::finish_with) their tree.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_stacks(out: W, origin: Origin) -> Result<Self, WriteError> {
        Self::begin(out, origin, true)
    }

    fn begin(mut out: W, origin: Origin, stacks: bool) -> Result<Self, WriteError> {
        let start = out.stream_position()?;
        // `finish` fills in the figures; the length does not depend on them.
        let mut header = Header::new(origin, Counts::default(), 0);
        header.stacks = stacks;
        let placeholder = header.encode()?;
        out.write_all(&placeholder)?;
        Ok(Self {
            out,
            start,
            length: placeholder.len() as u64,
            origin: header.origin,
            ledger: Ledger::default(),
            encoder: Encoder::default(),
            content: Vec::new(),
            sites: stacks.then(SiteEncoder::default),
            times: Sampler::default(),
            is_lost: false,
        })
    }

    /// Writes the next event. O(1) amortised.
    ///
    /// # Errors
    /// [`WriteError::Event`] if the event is invalid here: nothing was written, and writing can
    /// continue. [`WriteError::Io`] if the output fails: the file is lost, and the writer accepts
    /// nothing more.
    #[inline]
    pub fn write(&mut self, event: Event) -> Result<(), WriteError> {
        self.write_at(event, 0)
    }

    /// Writes the next event, made at a site: the number of a node of the tree, from 1, or 0 if its
    /// stack is unknown. Only allocations and reallocations have sites, and only in a trace with
    /// call stacks.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_at(&mut self, event: Event, site: u32) -> Result<(), WriteError> {
        self.check_output()?;
        self.ledger
            .enter(event)
            .map_err(|invalid| WriteError::Event { event: self.ledger.counts().events, invalid })?;
        self.encoder.encode(event, &mut self.content);
        let mut long = self.content.len() >= FRAME;
        if let Some(sites) = &mut self.sites
            && matches!(event, Event::Allocate { .. } | Event::Reallocate { .. })
        {
            sites.push(site);
            long |= sites.len() >= FRAME;
        }
        if long {
            self.close_frame()?;
        }
        Ok(())
    }

    /// Records that the events so far had happened `nanoseconds` after the recording began. May be
    /// called after any event, and any number of times: the writer keeps enough samples, in the end
    /// at most a few kilobytes. A trace with times has format version 3. O(1) amortised.
    #[inline]
    pub fn tell_time(&mut self, nanoseconds: u64) {
        self.times.push(self.events(), nanoseconds);
    }

    /// Returns the number of events written.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.ledger.counts().events
    }

    /// Returns the sums over the events written.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.ledger.counts()
    }

    /// Returns the length in bytes of the compressed data written so far, header included. An event
    /// counts when its frame, of up to a mebibyte before compression, is full.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.length
    }

    /// Completes the file: writes the remaining data, and the figures of the header.
    ///
    /// # Errors
    /// If the output fails.
    pub fn finish(self) -> Result<Header, WriteError> {
        self.finish_prefix_of(0)
    }

    /// Completes a file that contains the first events of a recording of `recorded_events`.
    ///
    /// # Errors
    /// If the output fails.
    pub fn finish_prefix_of(self, recorded_events: u64) -> Result<Header, WriteError> {
        self.finish_with(recorded_events, &Stacks::default())
    }

    /// Completes a file like [`finish_prefix_of`](Self::finish_prefix_of), with the call stacks to
    /// which the sites belong. A trace without call stacks ignores them.
    ///
    /// # Errors
    /// If the output fails, or a reader would refuse the call stacks: they are too many, or one of
    /// them, or of the events' sites, does not exist.
    pub fn finish_with(self, recorded_events: u64, stacks: &Stacks) -> Result<Header, WriteError> {
        Ok(self.finish_into(recorded_events, stacks)?.0)
    }

    /// Completes a file like [`finish_with`](Self::finish_with), and returns the output, positioned
    /// after the trace.
    ///
    /// # Errors
    /// As for `finish_with`.
    pub fn finish_into(
        mut self,
        recorded_events: u64,
        stacks: &Stacks,
    ) -> Result<(Header, W), WriteError> {
        self.check_output()?;
        let encoded = self.sites.as_ref().map(|sites| {
            stacks.check_site(sites.most())?;
            stacks.encode()
        });
        let encoded = encoded.transpose().map_err(WriteError::BadStacks)?;
        if !self.content.is_empty() {
            self.close_frame()?;
        }
        let times = self.times.finish();
        let has_times = !times.samples().is_empty();
        if has_times {
            self.length += frame::write(&mut self.out, &times.encode())?;
        }
        for part in encoded.iter().flat_map(|bytes| bytes.chunks(frame::LARGEST)) {
            self.length += frame::write(&mut self.out, part)?;
        }
        let mut header = Header::new(self.origin, self.ledger.counts(), recorded_events);
        header.stacks = self.sites.is_some();
        header.times = has_times;
        self.out.seek(SeekFrom::Start(self.start))?;
        self.out.write_all(&header.encode()?)?;
        self.out.seek(SeekFrom::Start(self.start + self.length))?;
        self.out.flush()?;
        Ok((header, self.out))
    }

    fn check_output(&self) -> io::Result<()> {
        if self.is_lost { Err(io::Error::other("an earlier write failed")) } else { Ok(()) }
    }

    fn close_frame(&mut self) -> io::Result<()> {
        // Until all of it is written.
        self.is_lost = true;
        self.length += frame::write(&mut self.out, &self.content)?;
        self.content.clear();
        if let Some(sites) = &mut self.sites {
            self.length += frame::write(&mut self.out, &sites.take())?;
        }
        self.is_lost = false;
        Ok(())
    }
}
