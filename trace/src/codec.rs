//! Encodes events as bytes and decodes them: the content of the frames.
//!
//! An event is one or more numbers ([`varint`]). The two lowest bits of the first give its kind:
//! ```text
//!  …1         free        the block, in the bits above
//!  …10        allocate    the size, in the bits above; the alignment is the expected one
//!  0   00     allocate    then the exponent of the alignment, then the size
//!  1   00     reallocate  then the block, then the size
//!  2   00     thread      then its number
//!  3   00     tick        then the microseconds
//! ```
//! * A **block** is the distance of its slot from that of the event before (of the last event that
//!   had one), zigzag-coded: programs free what they touched just before, and what they allocated
//!   in sequence they often free in sequence.
//! * An **allocation's slot** is not written: the rule determines it.
//! * The **expected alignment** is that of the last allocation whose size had the same remainder
//!   modulo 4096, initially 16 bytes: right for all of C's allocations, and nearly all of Rust's,
//!   where a size rarely occurs with two alignments.
//!
//! # Alternatives
//! Bytes per event after compression, on recordings of perl (4.3 million events), jq (1.2 million),
//! sqlite3 (410,000), python3 with `PYTHONMALLOC=malloc` (315,000) and gawk (86,000):
//! ```text
//!                                                perl    jq   sqlite3  python3  gawk
//!  slot's distance from the event before (this)  .188   .024   .014     .757    .283
//!  slot's distance from the block freed before   .208   .023   .010     .790    .297
//!  the slot itself                               .209   .826   .015    1.221    .844
//!  the block's age in allocations                .165   .415   .014     .865    .290
//!  its birth's distance from the last one freed  .194   .009   .009     .570    .306
//!  the shorter of the last two                   .160   .008   .008     .523    .288
//! ```
//! Decoding ages and births needs a map from births to slots, which costs more than the rest of
//! reading; a fifth of the size is not worth that. A dictionary of (size, alignment) pairs, in
//! order of appearance or of use, is no better than writing sizes (.196, .024, .014, .757, .289);
//! separate streams for sizes and blocks are worse (perl .23, jq .021, python3 .69, gawk .29):
//! deflate finds the repeated sequences itself.

use super::error::{Invalid, Reason};
use super::event::Event;
use super::varint;

const FREE: u64 = 0b1;
const ALLOCATE: u64 = 0b10;

/// The kinds of events encoded in the bits above `00`.
const ALLOCATE_ALIGNED: u64 = 0;
const REALLOCATE: u64 = 1;
const THREAD: u64 = 2;
const TICK: u64 = 3;

/// The state about previous events that both sides keep.
struct Memory {
    /// The slot of the last event with a slot.
    slot: u32,
    /// The exponent of the last alignment for each remainder of a size.
    aligns: [u8; 4096],
}

impl Default for Memory {
    fn default() -> Self {
        Self { slot: 0, aligns: [4; 4096] }
    }
}

impl Memory {
    fn align_log2(&mut self, size: u64) -> &mut u8 {
        &mut self.aligns[(size % 4096) as usize]
    }
}

/// Turns events into bytes.
#[derive(Default)]
pub(crate) struct Encoder(Memory);

impl Encoder {
    /// Appends an event, at most 22 bytes.
    pub(crate) fn encode(&mut self, event: Event, out: &mut Vec<u8>) {
        match event {
            Event::Allocate { slot, size, align } => {
                let align_log2 = align.trailing_zeros() as u8;
                let expected = self.0.align_log2(size);
                // A size of more than 62 bits does not fit above the kind.
                if *expected == align_log2 && size >> 62 == 0 {
                    varint::write(out, size << 2 | ALLOCATE);
                } else {
                    *expected = align_log2;
                    varint::write(out, ALLOCATE_ALIGNED << 2);
                    varint::write(out, align_log2.into());
                    varint::write(out, size);
                }
                self.0.slot = slot;
            }
            Event::Free { slot } => {
                let block = self.block(slot);
                varint::write(out, block << 1 | FREE);
            }
            Event::Reallocate { slot, size } => {
                varint::write(out, REALLOCATE << 2);
                varint::write(out, self.block(slot));
                varint::write(out, size);
            }
            Event::Thread { thread } => {
                varint::write(out, THREAD << 2);
                varint::write(out, thread.into());
            }
            Event::Tick { ticks } => {
                varint::write(out, TICK << 2);
                varint::write(out, ticks);
            }
        }
    }

    fn block(&mut self, slot: u32) -> u64 {
        let before = core::mem::replace(&mut self.0.slot, slot);
        varint::zigzag(i64::from(slot) - i64::from(before))
    }
}

/// Turns bytes into events.
#[derive(Default)]
pub(crate) struct Decoder(Memory);

impl Decoder {
    /// Decodes an event from the front of `content`; an allocation gets the slot from `next`. The
    /// event is well-formed, but only the ledger decides whether it is valid here.
    #[inline]
    pub(crate) fn decode(
        &mut self,
        content: &mut &[u8],
        next: impl FnOnce() -> Result<u32, Invalid>,
    ) -> Result<Event, Reason> {
        let first = number(content)?;
        if first & 1 == FREE {
            return Ok(Event::Free { slot: self.slot(first >> 1)? });
        }
        let rest = first >> 2;
        if first & 3 == ALLOCATE {
            let align_log2 = *self.0.align_log2(rest);
            return self.allocate(rest, align_log2, next);
        }
        match rest {
            ALLOCATE_ALIGNED => {
                let align_log2 = number(content)?;
                let size = number(content)?;
                let align_log2 = u8::try_from(align_log2).ok().filter(|&log2| log2 < 32);
                let align_log2 =
                    align_log2.ok_or(Reason::Frame("an alignment is out of bounds"))?;
                *self.0.align_log2(size) = align_log2;
                self.allocate(size, align_log2, next)
            }
            REALLOCATE => {
                let block = number(content)?;
                Ok(Event::Reallocate { slot: self.slot(block)?, size: number(content)? })
            }
            THREAD => Ok(Event::Thread { thread: narrow(number(content)?)? }),
            TICK => Ok(Event::Tick { ticks: number(content)? }),
            _ => Err(Reason::Frame("the kind of an event is unknown")),
        }
    }

    fn allocate(
        &mut self,
        size: u64,
        align_log2: u8,
        next: impl FnOnce() -> Result<u32, Invalid>,
    ) -> Result<Event, Reason> {
        let slot = next().map_err(Reason::Event)?;
        self.0.slot = slot;
        Ok(Event::Allocate { slot, size, align: 1 << align_log2 })
    }

    fn slot(&mut self, block: u64) -> Result<u32, Reason> {
        let slot = i64::from(self.0.slot).checked_add(varint::unzigzag(block));
        self.0.slot = narrow(slot.map_or(u64::MAX, |slot| slot as u64))?;
        Ok(self.0.slot)
    }
}

#[inline]
fn number(content: &mut &[u8]) -> Result<u64, Reason> {
    varint::read(content).ok_or(Reason::Frame("a number is malformed"))
}

fn narrow(value: u64) -> Result<u32, Reason> {
    u32::try_from(value).map_err(|_| Reason::Frame("a number is out of bounds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_are_read_back() {
        let events = [
            Event::Allocate { slot: 9, size: 24, align: 16 },
            Event::Allocate { slot: 9, size: 24, align: 1 },
            Event::Allocate { slot: 9, size: 24, align: 1 },
            Event::Allocate { slot: 9, size: (1 << 62) - 1, align: 16 },
            Event::Allocate { slot: 9, size: 1 << 62, align: 16 },
            Event::Allocate { slot: 9, size: u64::MAX >> 1, align: 1 << 31 },
            Event::Allocate { slot: 9, size: u64::MAX >> 1, align: 1 << 31 },
            Event::Reallocate { slot: u32::MAX, size: u64::MAX },
            Event::Free { slot: 0 },
            Event::Free { slot: u32::MAX },
            Event::Thread { thread: u32::MAX },
            Event::Tick { ticks: u64::MAX },
        ];
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        for event in events {
            let mut bytes = Vec::new();
            encoder.encode(event, &mut bytes);
            assert!(bytes.len() <= 22, "{event:?}");
            let mut rest = &bytes[..];
            assert_eq!(decoder.decode(&mut rest, || Ok(9)).unwrap(), event);
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn an_expected_alignment_is_not_written() {
        let mut encoder = Encoder::default();
        for size in [24, 25, 26, 27] {
            let mut length = |align| {
                let mut bytes = Vec::new();
                encoder.encode(Event::Allocate { slot: 0, size, align }, &mut bytes);
                bytes.len()
            };
            assert_eq!([16, 16, 1, 1, 16, 16].map(&mut length), [1, 1, 3, 1, 3, 1], "{size}");
        }
    }

    #[test]
    fn malformed_events_are_refused() {
        for bytes in [&[][..], &[0x80], &[4 << 2], &[0, 32, 1], &[0, 4], &[3 << 1 | 1], &[1 << 2]] {
            let result = Decoder::default().decode(&mut &bytes[..], || Ok(0));
            assert!(matches!(result, Err(Reason::Frame(_))), "{bytes:?}: {result:?}");
        }
    }
}
