//! The header of a trace file: the origin of the trace, and the sums over its events.
//!
//! ```text
//!  byte   0  magic            89 'P' 'W' 'T' 0D 0A 1A 0A
//!         8  format version   u16           all numbers little-endian; 3 with times, else 2 with
//!                                       call stacks, else 1
//!        10  pointer width    u8   bits
//!        11  parts            u8   of version 3: 1 if there are call stacks; else 0
//!        12  header length    u32  bytes, checksum included
//!        16  events           u64  in this file
//!        24  recorded events  u64  in the whole recording; these are its first
//!        32  most live blocks u64
//!        40  most live bytes  u64  as requested
//!        48  threads          u32
//!        52  arguments        u32
//!        56  date             u64  seconds since 1970 (0: unknown)
//!        64  program, note, argument…: each a u32 length and UTF-8 text
//!       end  CRC-32 (IEEE) of all the bytes before
//! ```
//! The magic is designed like PNG's: a transfer that mangles line ends or the eighth bit is
//! detected at once. The numbers are at fixed offsets because they are known only when the last
//! event has been written.

use std::io::{self, Read};

use super::error::{Reason, WriteError};
use super::ledger::{Counts, LARGEST};
use super::slots::MOST_LIVE;

pub(crate) const MAGIC: [u8; 8] = *b"\x89PWT\r\n\x1a\n";
pub(crate) const VERSION: u16 = 1;
/// The version of a trace with call stacks.
pub(crate) const VERSION_WITH_STACKS: u16 = 2;
/// The version of a trace with times; its parts say whether it also has call stacks.
const VERSION_WITH_TIMES: u16 = 3;
/// Flag for the optional part of that version.
const STACKS: u8 = 1;
/// Length of the part with fixed offsets.
const FIXED: usize = 64;
const CHECKSUM: usize = 4;
/// Maximum header length, equal to the limit of command lines on common systems.
const LONGEST: usize = 1 << 20;

/// Where a trace comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Name of the program, without its directory.
    pub program: String,
    /// Its arguments, without the program itself.
    pub arguments: Vec<String>,
    /// Date of the recording: seconds since 1970; 0 if unknown.
    pub date: u64,
    /// Pointer width of the recorded machine, in bits.
    pub pointer_width: u8,
    /// Free text, such as the input or the version of the program.
    pub note: String,
}

/// The header of a trace.
///
/// Its figures are *claims* until the last event has been read: [`Reader`](super::Reader) returns
/// no event that exceeds one, and compares them with the events at the end. They bound the
/// resources that a trace can take; never allocate memory based on them alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Header {
    /// The origin of the trace.
    pub origin: Origin,
    /// Events in the file, of every kind.
    pub events: u64,
    /// Events of the whole recording, or [`UNKNOWN`](Self::UNKNOWN). If more than `events`, the
    /// file contains a prefix.
    pub recorded_events: u64,
    /// Threads that allocated or freed.
    pub threads: u32,
    /// Peak number of live blocks; a replay's table needs that many slots.
    pub peak_blocks: u64,
    /// Peak of the live bytes, as requested.
    pub peak_bytes: u64,
    /// Whether the trace has the call stacks of allocations.
    pub stacks: bool,
    /// Whether the trace has the times of events.
    pub times: bool,
}

impl Header {
    /// The value of `recorded_events` if the recording was cut short: there were more events than
    /// in the file, but their number is unknown.
    pub const UNKNOWN: u64 = u64::MAX;

    pub(crate) fn new(origin: Origin, counts: Counts, recorded_events: u64) -> Self {
        Self {
            origin,
            events: counts.events,
            recorded_events: recorded_events.max(counts.events),
            threads: counts.threads,
            peak_blocks: counts.peak_blocks,
            peak_bytes: counts.peak_bytes,
            stacks: false,
            times: false,
        }
    }

    /// Returns whether the file contains only the first events of a longer recording.
    #[must_use]
    pub fn is_prefix(&self) -> bool {
        self.recorded_events > self.events
    }

    /// Returns the header as bytes of a file.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, WriteError> {
        let origin = &self.origin;
        let mut out = Vec::with_capacity(256);
        out.extend(MAGIC);
        let (version, parts) = match (self.times, self.stacks) {
            (true, true) => (VERSION_WITH_TIMES, STACKS),
            (true, false) => (VERSION_WITH_TIMES, 0),
            (false, true) => (VERSION_WITH_STACKS, 0),
            (false, false) => (VERSION, 0),
        };
        out.extend(version.to_le_bytes());
        out.extend([origin.pointer_width, parts]);
        out.extend([0; 4]);
        for figure in [self.events, self.recorded_events, self.peak_blocks, self.peak_bytes] {
            out.extend(figure.to_le_bytes());
        }
        out.extend(self.threads.to_le_bytes());
        out.extend((origin.arguments.len() as u32).to_le_bytes());
        out.extend(origin.date.to_le_bytes());
        debug_assert_eq!(out.len(), FIXED);
        for text in [&origin.program, &origin.note].into_iter().chain(&origin.arguments) {
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.as_bytes());
            if out.len() > LONGEST - CHECKSUM {
                return Err(WriteError::HeaderTooLong);
            }
        }
        let length = out.len() + CHECKSUM;
        out[12..16].copy_from_slice(&(length as u32).to_le_bytes());
        out.extend(crc32fast::hash(&out).to_le_bytes());
        Ok(out)
    }

    /// Reads a header. Also returns its length.
    pub(crate) fn read(input: &mut impl Read) -> Result<(Self, u64), Reason> {
        let mut bytes = vec![0; FIXED];
        let found = fill(input, &mut bytes)?;
        if bytes[..MAGIC.len()] != MAGIC {
            return Err(Reason::NotATrace);
        }
        if found < FIXED {
            return Err(Reason::Truncated);
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if !(VERSION..=VERSION_WITH_TIMES).contains(&version) {
            return Err(Reason::Version { found: version, known: VERSION_WITH_TIMES });
        }
        let length = u32_at(&bytes, 12) as usize;
        if !(FIXED + CHECKSUM..=LONGEST).contains(&length) {
            return Err(Reason::Header("its length is out of bounds"));
        }
        bytes.resize(length, 0);
        if fill(input, &mut bytes[FIXED..])? < length - FIXED {
            return Err(Reason::Truncated);
        }
        let body = length - CHECKSUM;
        if u32_at(&bytes, body) != crc32fast::hash(&bytes[..body]) {
            return Err(Reason::Checksum);
        }
        Self::decode(&bytes[..body]).map(|header| (header, length as u64))
    }

    /// Decodes a header whose checksum is correct; it may still come from a hostile writer.
    fn decode(bytes: &[u8]) -> Result<Self, Reason> {
        let (fixed, mut texts) = bytes.split_at(FIXED);
        let version = u16::from_le_bytes([fixed[8], fixed[9]]);
        let times = version == VERSION_WITH_TIMES;
        if fixed[11] & !if times { STACKS } else { 0 } != 0 {
            return Err(Reason::Header("it has parts of an unknown kind"));
        }
        let program = text(&mut texts)?;
        let note = text(&mut texts)?;
        let arguments =
            (0..u32_at(fixed, 52)).map(|_| text(&mut texts)).collect::<Result<_, _>>()?;
        if !texts.is_empty() {
            return Err(Reason::Header("extra data after the last argument"));
        }
        let header = Self {
            origin: Origin {
                program,
                arguments,
                date: u64_at(fixed, 56),
                pointer_width: fixed[10],
                note,
            },
            events: u64_at(fixed, 16),
            recorded_events: u64_at(fixed, 24),
            threads: u32_at(fixed, 48),
            peak_blocks: u64_at(fixed, 32),
            peak_bytes: u64_at(fixed, 40),
            stacks: version == VERSION_WITH_STACKS || fixed[11] & STACKS != 0,
            times,
        };
        if header.recorded_events < header.events {
            return Err(Reason::Header("it holds more events than were recorded"));
        }
        if header.peak_blocks > header.events.min(MOST_LIVE.into()) {
            return Err(Reason::Header("it claims more live blocks than its events can make"));
        }
        // Each thread except the first needs an event.
        if u64::from(header.threads) > header.events.saturating_add(1) {
            return Err(Reason::Header("it claims more threads than events"));
        }
        if header.peak_bytes > LARGEST || (header.peak_blocks == 0 && header.peak_bytes > 0) {
            return Err(Reason::Header("it claims more live bytes than its blocks can have"));
        }
        Ok(header)
    }
}

/// Decodes a text from the front of `bytes`.
fn text(bytes: &mut &[u8]) -> Result<String, Reason> {
    let cut = Reason::Header("a text is cut short");
    let Some((length, rest)) = bytes.split_first_chunk() else { return Err(cut) };
    let length = u32::from_le_bytes(*length) as usize;
    let Some((text, rest)) = rest.split_at_checked(length) else { return Err(cut) };
    *bytes = rest;
    String::from_utf8(text.to_vec()).map_err(|_| Reason::Header("a text is not UTF-8"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |field| u32::from_le_bytes(*field))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |field| u64::from_le_bytes(*field))
}

/// Reads until `buffer` is full or the input ends; returns the number of bytes read.
pub(crate) fn fill(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, Reason> {
    let mut found = 0;
    while found < buffer.len() {
        match input.read(&mut buffer[found..]) {
            Ok(0) => break,
            Ok(count) => found += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Reason::Io(error)),
        }
    }
    Ok(found)
}
