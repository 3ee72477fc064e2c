//! Any bytes read as a trace give events or an error: no panic, no endless loop, no memory beyond
//! that of the events. A trace that was read reads the same after it is written again.
//!
//! Checksums would stop a fuzzer, so they are corrected first: the header's, and that of each frame
//! that can be located.

use std::io::Cursor;

use pagewise::trace::{Event, Header, Ledger, Reader, Sample, Stacks, Times, Writer};

pub(crate) fn run(data: &[u8]) {
    let mut file = data.to_vec();
    mend(&mut file);
    read(&file);
}

/// Reads a file with correct checksums.
pub(crate) fn read(file: &[u8]) {
    let Ok(reader) = Reader::new(file) else { return };
    let mut reader = reader.with_stacks();
    let header = reader.header().clone();
    let mut events = Vec::new();
    // Readers rely on no event exceeding the header's figures.
    let mut ledger = Ledger::new();
    let mut sites = Vec::new();
    while let Some(event) = reader.next() {
        let Ok(event) = event else { return };
        events.push(event);
        sites.push(reader.site());
        ledger.enter(event).unwrap();
        let counts = ledger.counts();
        assert!(counts.events <= header.events && counts.threads <= header.threads);
        assert!(counts.peak_blocks <= header.peak_blocks && counts.peak_bytes <= header.peak_bytes);
        // A frame of a thousand bytes can contain a million events, which would only slow the
        // fuzzer down.
        if events.len() == 1 << 16 {
            break;
        }
    }
    let whole = reader.next().is_none();
    let times = reader.take_times();
    assert!(!whole || times.is_some() == header.times);
    let samples = times.as_ref().map_or(&[][..], Times::samples);
    assert!(samples.is_sorted_by_key(|sample| sample.event));
    assert!(samples.is_sorted_by_key(|sample| sample.nanoseconds));
    assert!(samples.iter().all(|sample| sample.event <= header.events));
    let stacks = reader.take_stacks();
    assert!(!whole || stacks.is_some() == header.stacks);
    let most = sites.iter().copied().max().unwrap_or(0) as usize;
    let sites_known = stacks.as_ref().map_or(most == 0, |stacks| most <= stacks.nodes.len());
    assert!(!whole || sites_known);
    // If only a part of the events is read, there are no stacks.
    write_again(&header, &events, &sites, samples, stacks.unwrap_or_default());
}

/// Writes what was read, and checks that it reads the same.
fn write_again(
    header: &Header,
    events: &[Event],
    sites: &[u32],
    samples: &[Sample],
    stacks: Stacks,
) {
    let site = |site: u32| if site as usize <= stacks.nodes.len() { site } else { 0 };
    let mut again = Cursor::new(Vec::new());
    let begin = if header.stacks { Writer::with_stacks } else { Writer::new };
    let mut writer = begin(&mut again, header.origin.clone()).unwrap();
    let mut samples = samples.iter().copied().peekable();
    let mut told = 0;
    for (&event, &at) in events.iter().zip(sites) {
        while let Some(sample) = samples.next_if(|sample| sample.event <= writer.events()) {
            writer.tell_time(sample.nanoseconds);
            told += 1;
        }
        writer.write_at(event, site(at)).unwrap();
    }
    for sample in samples {
        writer.tell_time(sample.nanoseconds);
        told += 1;
    }
    let rewritten = writer.finish_with(header.recorded_events, &stacks).unwrap();
    if events.len() as u64 == header.events {
        // Times without samples are not written.
        let mut expected = header.clone();
        expected.times &= told > 0;
        assert_eq!(rewritten, expected);
    }
    let mut reader = Reader::new(&again.get_ref()[..]).unwrap().with_stacks();
    let read: Vec<Event> = reader.by_ref().map(|event| event.unwrap()).collect();
    assert_eq!(read, events);
    assert_eq!(reader.take_stacks(), header.stacks.then_some::<Stacks>(stacks));
}

/// Corrects the checksums.
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
