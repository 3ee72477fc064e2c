//! Traces with the times of their events: a written trace reads back the same, and damage is
//! detected.

use std::io::Cursor;

use pagewise_trace::{Event, Origin, ReadError, Reader, Stacks, Times, Writer};

/// Makes a trace of `count` blocks, one per microsecond.
fn trace(count: u32, stacks: bool) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let begin = if stacks { Writer::with_stacks } else { Writer::new };
    let mut writer = begin(&mut file, Origin::default()).unwrap();
    for slot in 0..count {
        writer.tell_time(u64::from(slot) * 1000);
        writer.write(Event::Allocate { slot, size: 10, align: 16 }).unwrap();
    }
    let (header, file) = writer.finish_into(0, &Stacks::default()).unwrap();
    assert_eq!((header.times, header.stacks), (count > 0, stacks));
    assert_eq!(file.position(), file.get_ref().len() as u64, "it stands after the trace");
    file.get_ref().clone()
}

fn read(file: &[u8]) -> Result<Option<Times>, ReadError> {
    let mut reader = Reader::new(file)?.with_stacks();
    reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    assert_eq!(reader.bytes_read(), file.len() as u64);
    assert_eq!(reader.take_stacks().is_some(), reader.header().stacks);
    let times = reader.take_times();
    assert_eq!(times.is_some(), reader.header().times);
    Ok(times)
}

#[test]
fn times_are_read_back() {
    for stacks in [false, true] {
        assert_eq!(read(&trace(0, stacks)).unwrap(), None);
        for count in [1, 9, 700_000] {
            let file = trace(count, stacks);
            assert_eq!(file[8..12], [3, 0, 0, u8::from(stacks)]);
            let times = read(&file).unwrap().expect("times");
            assert!(times.samples().len() <= 1024);
            for event in (0..u64::from(count)).step_by(997) {
                assert_eq!(times.at(event), Some(event * 1000));
            }
        }
    }
}

#[test]
fn a_trace_without_times_has_an_earlier_version() {
    assert_eq!(trace(0, false)[8..12], [1, 0, 0, 0]);
    assert_eq!(trace(0, true)[8..12], [2, 0, 0, 0]);
}

#[test]
fn damage_is_detected() {
    for stacks in [false, true] {
        let file = trace(100, stacks);
        for len in 0..file.len() {
            assert!(read(&file[..len]).is_err(), "cut at {len}");
        }
        for bit in 0..file.len() * 8 {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&damaged).is_err(), "bit {bit}");
        }
        let mut longer = file.clone();
        longer.extend([0; 4]);
        assert!(read(&longer).is_err());
        // The last frame twice.
        let frames = if stacks { 2 } else { 1 };
        let again = trace(100, stacks);
        longer.truncate(file.len());
        longer.extend(&again[again.len() - 30 * frames..]);
        assert!(read(&longer).is_err());
    }
}

/// Parts that no version has, and parts that an earlier version lacks.
#[test]
fn unknown_parts_are_refused() {
    for (version, parts) in [(1, 1), (2, 1), (1, 2), (3, 2), (3, 3), (3, 128), (4, 0)] {
        let mut file = trace(1, false);
        (file[8], file[11]) = (version, parts);
        let body = u32::from_le_bytes(file[12..16].try_into().unwrap()) as usize - 4;
        let checksum = crc32fast::hash(&file[..body]);
        file[body..body + 4].copy_from_slice(&checksum.to_le_bytes());
        let error = read(&file).unwrap_err().to_string();
        let expected = if version == 4 { "format version 4" } else { "of an unknown kind" };
        assert!(error.contains(expected), "{error}");
    }
}
