//! Traces whose frames contain events, numbers that are not events, and arbitrary bytes, with
//! arbitrary claims in the header. They are read like any bytes, but with valid compression and
//! checksums, which a fuzzer does not guess.

use std::io::Write;

use arbitrary::{Arbitrary, Unstructured};
use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::read_trace::read;

#[derive(Debug, Arbitrary)]
struct Trace {
    claims: Claims,
    frames: Vec<Vec<Piece>>,
}

#[derive(Debug, Arbitrary)]
enum Claims {
    /// The maximum possible claim.
    All,
    Few {
        events: u16,
        recorded: u16,
        blocks: u8,
        bytes: u32,
        threads: u8,
    },
    Any {
        events: u64,
        recorded: u64,
        blocks: u64,
        bytes: u64,
        threads: u32,
    },
}

/// A part of a frame's content in the format.
#[derive(Debug, Arbitrary)]
enum Piece {
    Free { distance: i8 },
    Allocate { size: u16 },
    AllocateAligned { log2: u8, size: u32 },
    Reallocate { distance: i8, size: u32 },
    Thread { thread: u8 },
    Tick { ticks: u16 },
    Number(u64),
    Byte(u8),
}

pub(crate) fn run(data: &[u8]) {
    let Ok(trace) = Trace::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let mut file = header(&trace.claims);
    for pieces in &trace.frames {
        let mut content = Vec::new();
        pieces.iter().for_each(|piece| put(&mut content, piece));
        frame(&mut file, &content);
    }
    read(&file);
}

fn header(claims: &Claims) -> Vec<u8> {
    let (events, recorded, blocks, bytes, threads) = match *claims {
        Claims::All => (1 << 40, u64::MAX, 1 << 28, u64::MAX >> 1, u32::MAX),
        Claims::Few { events, recorded, blocks, bytes, threads } => {
            let (events, recorded) = (u64::from(events), u64::from(recorded));
            (events, events + recorded, blocks.into(), bytes.into(), threads.into())
        }
        Claims::Any { events, recorded, blocks, bytes, threads } => {
            (events, recorded, blocks, bytes, threads)
        }
    };
    let mut header = b"\x89PWT\r\n\x1a\n\x01\0\x40\0".to_vec();
    // Header length: the figures, two empty texts, the checksum.
    header.extend(76_u32.to_le_bytes());
    header.extend([events, recorded, blocks, bytes].map(u64::to_le_bytes).as_flattened());
    header.extend(threads.to_le_bytes());
    header.extend([0; 4 + 8 + 2 * 4]);
    header.extend(crc32fast::hash(&header).to_le_bytes());
    header
}

fn frame(file: &mut Vec<u8>, content: &[u8]) {
    let mut encoder = DeflateEncoder::new(vec![0; 4], Compression::none());
    encoder.get_mut().extend((content.len() as u32).to_le_bytes());
    encoder.write_all(content).expect("a vector takes it");
    let mut frame = encoder.finish().expect("a vector takes it");
    let compressed = frame.len() as u32 - 8;
    frame[..4].copy_from_slice(&compressed.to_le_bytes());
    frame.extend(crc32fast::hash(&frame).to_le_bytes());
    file.extend(frame);
}

fn put(content: &mut Vec<u8>, piece: &Piece) {
    let distance = |distance: i8| u64::from(((distance << 1) ^ (distance >> 7)) as u8);
    match *piece {
        Piece::Free { distance: by } => number(content, distance(by) << 1 | 1),
        Piece::Allocate { size } => number(content, u64::from(size) << 2 | 2),
        Piece::AllocateAligned { log2, size } => {
            [0, log2.into(), size.into()].into_iter().for_each(|value| number(content, value));
        }
        Piece::Reallocate { distance: by, size } => {
            [1 << 2, distance(by), size.into()]
                .into_iter()
                .for_each(|value| number(content, value));
        }
        Piece::Thread { thread } => {
            [2 << 2, thread.into()].into_iter().for_each(|value| number(content, value));
        }
        Piece::Tick { ticks } => {
            [3 << 2, ticks.into()].into_iter().for_each(|value| number(content, value));
        }
        Piece::Number(value) => number(content, value),
        Piece::Byte(byte) => content.push(byte),
    }
}

/// Appends a number, seven bits per byte, lowest first.
fn number(content: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        content.push(value as u8 | 0x80);
        value >>= 7;
    }
    content.push(value as u8);
}
