//! Any bytes read as a trace give events or an error: no panic, no endless loop, no memory beyond
//! what the events ask for. And what was read, written again, reads the same.
//!
//! Checksums would keep a fuzzer out, so they are put right first: the header's, and that of each
//! frame as far as frames can be told.

use std::io::Cursor;

use pagewise::trace::{Event, Ledger, Reader, Writer};

pub(crate) fn run(data: &[u8]) {
    let mut file = data.to_vec();
    mend(&mut file);
    read(&file);
}

/// Reads a file whose checksums are right.
pub(crate) fn read(file: &[u8]) {
    let Ok(reader) = Reader::new(file) else { return };
    let header = reader.header().clone();
    let mut events = Vec::new();
    // No event may pass that exceeds what the header claims: whoever reads relies on it.
    let mut ledger = Ledger::new();
    // A frame of a thousand bytes can hold a million events; so many are the fuzzer's loss only.
    for event in reader.take(1 << 16) {
        let Ok(event) = event else { return };
        events.push(event);
        ledger.enter(event).unwrap();
        let counts = ledger.counts();
        assert!(counts.events <= header.events && counts.threads <= header.threads);
        assert!(counts.peak_blocks <= header.peak_blocks && counts.peak_bytes <= header.peak_bytes);
    }
    let mut again = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut again, header.origin.clone()).unwrap();
    for &event in &events {
        writer.write(event).unwrap();
    }
    let rewritten = writer.finish_prefix_of(header.recorded_events).unwrap();
    if events.len() as u64 == header.events {
        assert_eq!(rewritten, header);
    }
    let read: Vec<Event> =
        Reader::new(&again.get_ref()[..]).unwrap().map(|event| event.unwrap()).collect();
    assert_eq!(read, events);
}

/// Puts the checksums right.
fn mend(file: &mut [u8]) {
    let number = |file: &[u8], at: usize| {
        file.get(at..)?.first_chunk().map(|field| u32::from_le_bytes(*field) as usize)
    };
    let put = |file: &mut [u8], from: usize, to: usize| {
        let checksum = file.get(from..to).map(crc32fast::hash)?;
        file.get_mut(to..to.checked_add(4)?)?.copy_from_slice(&checksum.to_le_bytes());
        Some(to + 4)
    };
    let header = number(file, 12).and_then(|length| length.checked_sub(4));
    let mut at = header.and_then(|end| put(file, 0, end));
    while let Some(start) = at {
        at = number(file, start)
            .and_then(|length| start.checked_add(8)?.checked_add(length))
            .and_then(|end| put(file, start, end));
    }
}
