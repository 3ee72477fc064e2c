//! Writes a profile in pprof's format: the message `Profile` of its `profile.proto`, in a gzip
//! file.
//!
//! Fields may come in any order, so they are written as they are found; only the length of a single
//! sample or mapping must be known in advance. A location's number is its return address, and its
//! address is one byte less, inside the call. The reader finds the names of functions by file and
//! build id.

use core::fmt::{self, Write};

use super::book::{DEPTH, Snapshot};
use super::gzip::Gzip;
use super::modules::Modules;
use crate::os;

/// The allocator's own functions. The reader omits their calls and everything that they call.
const DROPPED: &str = ".*pagewise::global::.*|(re)?allocate(_zeroed|_aligned|_sized|_small)?(_slowly|_unusually)?|relocate|\
                       .*__rust_(no_alloc_shim.*|alloc|alloc_zeroed|realloc)|.*__rdl_.*|exchange_malloc|\
                       (__libc_)?(malloc|calloc|realloc|reallocarray|memalign|valloc|pvalloc)|posix_memalign|aligned_alloc|\
                       operator new.*|pagewise_(malloc|calloc|realloc|aligned_alloc)";

/// Field numbers of `Profile`.
mod profile {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const STRING_TABLE: u32 = 6;
    pub(super) const DROP_FRAMES: u32 = 7;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const PERIOD_TYPE: u32 = 11;
    pub(super) const PERIOD: u32 = 12;
    pub(super) const COMMENT: u32 = 13;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
}

/// Field numbers of `ValueType`.
mod value_type {
    pub(super) const TYPE: u32 = 1;
    pub(super) const UNIT: u32 = 2;
}

/// Field numbers of `Sample`.
mod sample {
    pub(super) const LOCATION_ID: u32 = 1;
    pub(super) const VALUE: u32 = 2;
}

/// Field numbers of `Mapping`.
mod mapping {
    pub(super) const ID: u32 = 1;
    pub(super) const MEMORY_START: u32 = 2;
    pub(super) const MEMORY_LIMIT: u32 = 3;
    pub(super) const FILE_OFFSET: u32 = 4;
    pub(super) const FILENAME: u32 = 5;
    pub(super) const BUILD_ID: u32 = 6;
}

/// Field numbers of `Location`.
mod location {
    pub(super) const ID: u32 = 1;
    pub(super) const MAPPING_ID: u32 = 2;
    pub(super) const ADDRESS: u32 = 3;
}

/// A message on the stack, with room for a sample of [`DEPTH`] calls.
struct Message {
    bytes: [u8; (DEPTH + 8) * 10],
    len: usize,
}

impl Message {
    const EMPTY: Self = Self { bytes: [0; (DEPTH + 8) * 10], len: 0 };

    /// Writes a number, seven bits a byte, the lowest first.
    fn varint(&mut self, mut number: u64) {
        loop {
            let more = number > 0x7f;
            self.bytes[self.len] = number as u8 & 0x7f | u8::from(more) << 7;
            self.len += 1;
            number >>= 7;
            if !more {
                return;
            }
        }
    }

    /// Writes a field with one number. A 0 is omitted, since it is the default.
    fn number(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.varint(u64::from(field) << 3);
            self.varint(number);
        }
    }

    /// Writes a field with several numbers.
    fn numbers(&mut self, field: u32, numbers: impl Iterator<Item = u64> + Clone) {
        let len = |number: u64| u64::from((64 - (number | 1).leading_zeros()).div_ceil(7));
        self.varint(u64::from(field) << 3 | 2);
        self.varint(numbers.clone().map(len).sum());
        numbers.for_each(|number| self.varint(number));
    }
}

/// A profile that is being written.
struct Out<'a> {
    gzip: Gzip<'a>,
    /// Number of strings written to the table.
    strings: u64,
}

impl Out<'_> {
    /// Writes a field that consists of bytes: a string, or a message.
    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        let mut head = Message::EMPTY;
        head.varint(u64::from(field) << 3 | 2);
        head.varint(bytes.len() as u64);
        self.gzip.write(&head.bytes[..head.len]);
        self.gzip.write(bytes);
    }

    /// Writes a field that is a message, which `make` writes.
    fn message(&mut self, field: u32, make: impl FnOnce(&mut Message)) {
        let mut message = Message::EMPTY;
        make(&mut message);
        self.bytes(field, &message.bytes[..message.len]);
    }

    /// Writes a field with one number.
    fn number(&mut self, field: u32, number: u64) {
        let mut message = Message::EMPTY;
        message.number(field, number);
        self.gzip.write(&message.bytes[..message.len]);
    }

    /// Adds a string to the table and returns its number.
    fn string(&mut self, bytes: &[u8]) -> u64 {
        self.bytes(profile::STRING_TABLE, bytes);
        self.strings += 1;
        self.strings - 1
    }

    /// Writes a `ValueType`: what is counted, in which unit.
    fn value_type(&mut self, field: u32, of: u64, unit: u64) {
        self.message(field, |message| {
            message.number(value_type::TYPE, of);
            message.number(value_type::UNIT, unit);
        });
    }

    /// Writes what the values of each sample count, and how many bytes are between two samples.
    fn value_types(&mut self, bytes_per_sample: usize) {
        let (count, bytes) = (self.string(b"count"), self.string(b"bytes"));
        let [objects, space, live_objects, live_space, period] =
            ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "space"]
                .map(|name| self.string(name.as_bytes()));
        for (of, unit) in
            [(objects, count), (space, bytes), (live_objects, count), (live_space, bytes)]
        {
            self.value_type(profile::SAMPLE_TYPE, of, unit);
        }
        self.value_type(profile::PERIOD_TYPE, period, bytes);
        self.number(profile::PERIOD, bytes_per_sample as u64);
        self.number(profile::DEFAULT_SAMPLE_TYPE, live_space);
    }

    /// Writes which functions the reader omits, the time, and how many samples were dropped.
    fn remarks(&mut self, dropped_samples: u64) {
        let dropped = self.string(DROPPED.as_bytes());
        self.number(profile::DROP_FRAMES, dropped);
        self.number(profile::TIME_NANOS, os::since_1970());
        if dropped_samples > 0 {
            let mut text = Comment { bytes: [0; 80], len: 0 };
            let _ = write!(text, "{dropped_samples} samples were dropped for lack of memory");
            let comment = self.string(&text.bytes[..text.len]);
            self.number(profile::COMMENT, comment);
        }
    }

    /// Writes a `Mapping` for each module. Mappings are numbered from 1 on, in the same order.
    fn mappings(&mut self, modules: &Modules) {
        for (index, module) in modules.list().iter().enumerate() {
            let name = self.string(modules.name(module));
            let mut id = Comment { bytes: [0; 80], len: 0 };
            for byte in module.build_id() {
                let _ = write!(id, "{byte:02x}");
            }
            let id = self.string(&id.bytes[..id.len]);
            self.message(profile::MAPPING, |message| {
                message.number(mapping::ID, index as u64 + 1);
                message.number(mapping::MEMORY_START, module.start as u64);
                message.number(mapping::MEMORY_LIMIT, module.end as u64);
                message.number(mapping::FILE_OFFSET, module.offset);
                message.number(mapping::FILENAME, name);
                message.number(mapping::BUILD_ID, id);
            });
        }
    }

    /// Writes a `Location` for each return address.
    fn locations(&mut self, addresses: &[usize], modules: &Modules) {
        for &address in addresses {
            let module = modules.find(address - 1);
            self.message(profile::LOCATION, |message| {
                message.number(location::ID, address as u64);
                message.number(location::MAPPING_ID, module.map_or(0, |index| index as u64 + 1));
                message.number(location::ADDRESS, address as u64 - 1);
            });
        }
    }

    /// Writes a `Sample` for each stack.
    fn samples(&mut self, snapshot: &Snapshot) {
        for site in snapshot.sites() {
            let values =
                [site.allocated_blocks, site.allocated_bytes, site.live_blocks, site.live_bytes];
            self.message(profile::SAMPLE, |message| {
                message.numbers(sample::LOCATION_ID, site.calls.iter().map(|&call| call as u64));
                message.numbers(sample::VALUE, values.into_iter());
            });
        }
    }
}

/// Writes a profile in pieces to `sink`, which returns whether it took a piece. Returns whether all
/// of it was written. Does not allocate.
pub(super) fn write(snapshot: &Snapshot, sink: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    let Some(addresses) = snapshot.addresses() else { return false };
    let modules = Modules::of_process();
    let mut out = Out { gzip: Gzip::new(sink), strings: 0 };
    // The first string of the table must be empty.
    out.string(b"");
    out.value_types(snapshot.bytes_per_sample());
    out.remarks(snapshot.dropped());
    out.mappings(&modules);
    out.locations(addresses.as_slice(), &modules);
    out.samples(snapshot);
    out.gzip.finish()
}

/// A short text on the stack.
struct Comment {
    bytes: [u8; 80],
    len: usize,
}

impl Write for Comment {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field consists of number, kind and value; a varint has seven bits in each byte, lowest
    /// first.
    #[test]
    fn a_message_is_made_of_fields() {
        let bytes = |make: &dyn Fn(&mut Message)| {
            let mut message = Message::EMPTY;
            make(&mut message);
            message.bytes[..message.len].to_vec()
        };
        assert_eq!(bytes(&|message| message.number(2, 0)), []);
        assert_eq!(bytes(&|message| message.number(2, 127)), [2 << 3, 127]);
        assert_eq!(bytes(&|message| message.number(15, 300)), [15 << 3, 0xac, 2]);
        assert_eq!(bytes(&|message| message.number(16, 128)), [0x80, 1, 0x80, 1]);
        let all = [[0xff; 9].as_slice(), &[1]].concat();
        assert_eq!(bytes(&|message| message.varint(u64::MAX)), all);
        let numbers = [0, 1, 127, 128, (1 << 14) - 1, 1 << 14, u64::MAX];
        let packed = [&[0, 1, 127, 0x80, 1, 0xff, 0x7f, 0x80, 0x80, 1][..], &all].concat();
        let head = [3 << 3 | 2, packed.len() as u8];
        assert_eq!(
            bytes(&|message| message.numbers(3, numbers.into_iter())),
            [&head[..], &packed].concat()
        );
    }

    /// A text takes only whole pieces that fit.
    #[test]
    fn a_comment_has_room_for_80_bytes() {
        let mut text = Comment { bytes: [0; 80], len: 0 };
        assert_eq!(text.write_str("one "), Ok(()));
        assert_eq!(write!(text, "{:02x}", 7), Ok(()));
        assert_eq!(&text.bytes[..text.len], b"one 07");
        assert_eq!(text.write_str(&"x".repeat(75)), Err(fmt::Error));
        assert_eq!((text.len, text.bytes[6]), (6, 0));
        assert_eq!(text.write_str(&"x".repeat(74)), Ok(()));
        assert_eq!((text.len, text.bytes[79]), (80, b'x'));
        assert_eq!(text.write_str("y"), Err(fmt::Error));
    }
}
