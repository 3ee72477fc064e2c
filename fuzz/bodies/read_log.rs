//! Any bytes read as a raw log give records or an error, and the records give events that can be
//! written: no panic, no endless loop, memory proportional to the bytes.

use std::io::{self, Cursor, Read};

use pagewise::trace::raw::{Converter, LogReader};
use pagewise::trace::{Origin, Writer};

/// Bytes of a log before its first record, and its magic.
const HEAD: u64 = 1 << 16;
const MAGIC: u64 = u64::from_be_bytes(*b"PWLOG\r\n\x1a");
/// In this order: neither call stacks nor times, call stacks only, times only, both.
const VERSIONS: [u32; 4] = [2, 3, 4, 5];

pub(crate) fn run(data: &[u8]) {
    VERSIONS.iter().for_each(|&version| read(data, version));
}

fn read(data: &[u8], version: u32) {
    // A head is long and mostly text: the first bytes become its numbers, the rest the records.
    let (numbers, records) = data.split_at(data.len().min(32));
    let (width, numbers) = numbers.split_at(numbers.len().min(4));
    let width: u32 = if width == 64_u32.to_ne_bytes() { 64 } else { 32 };
    let (magic, version) = (MAGIC.to_ne_bytes(), version.to_ne_bytes());
    let fixed = [&magic[..], &version, &width.to_ne_bytes()].concat();
    let head = fixed.chain(numbers).chain(io::repeat(0)).take(HEAD);

    let mut reader = LogReader::new(head.chain(records)).unwrap();
    let mut converter = Converter::new();
    let mut writer = Writer::new(Cursor::new(Vec::new()), Origin::default()).unwrap();
    let mut count = 0;
    while let Some(record) = reader.next() {
        let Ok((thread, record)) = record else { break };
        let site = reader.site();
        reader.nanoseconds().into_iter().for_each(|time| writer.tell_time(time));
        assert!(site as usize <= reader.stacks().map_or(0, |stacks| stacks.nodes.len()));
        count += 1;
        // The writer refuses impossible sizes, and reading stops there.
        if converter.convert_at(thread, record, site, |event, _| writer.write(event)).is_err() {
            break;
        }
    }
    // Each record and each hole takes at least a byte.
    assert!(count + reader.holes() <= records.len() as u64);
    // A block, its thread, its page, and its region, which counts as four.
    assert!(converter.remembered() <= 7 * count);
    writer.finish().unwrap();
}
