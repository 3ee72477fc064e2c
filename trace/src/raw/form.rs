//! Encodes records as words and decodes them; the module above shows the forms.

use super::record::Record;

/// Words of a record that does not fit one word: `words[..len]`.
#[cfg(any(test, all(target_os = "linux", target_has_atomic = "64")))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) words: [u64; 3],
    pub(super) len: usize,
}

/// The role of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A place that was claimed but never written, or the end.
    Empty,
    /// The first word of a record of this many words.
    First(usize),
    /// One of the further words.
    Further,
}

const ALLOCATED: u64 = 1;
const FREEING: u64 = 2;
const REALLOCATING: u64 = 3;
const REALLOCATED: u64 = 4;
const FIRST_OF_TWO: u64 = 5;
const FIRST_OF_THREE: u64 = 6;
const FURTHER: u64 = 7;

/// Bits of a word's role, and mask of the rest of the word.
const ROLE: u32 = 3;
const REST: u32 = 64 - ROLE;
/// Position of the address in a record of one word.
const ADDRESS: u32 = 20;

/// Returns the role of a word.
pub(super) fn role(word: u64) -> Role {
    match word & 7 {
        0 => Role::Empty,
        FIRST_OF_TWO => Role::First(2),
        FIRST_OF_THREE => Role::First(3),
        FURTHER => Role::Further,
        _ => Role::First(1),
    }
}

/// Extracts this many bits of a word.
#[inline]
fn field(word: u64, from: u32, bits: u32) -> u64 {
    word >> from & ((1 << bits) - 1)
}

/// The form of records for a pointer width.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Exponents of the alignments that a record of one word can express; that of `malloc` first.
    aligns: [u8; 4],
}

impl Form {
    /// For pointers of this many bits.
    pub(super) const fn new(pointer_width: u32) -> Self {
        Self { aligns: if pointer_width == 64 { [4, 3, 0, 2] } else { [3, 4, 0, 2] } }
    }

    /// Encodes a record made by `thread` as one word; 0 if it does not fit.
    #[cfg(any(test, all(target_os = "linux", target_has_atomic = "64")))]
    #[inline]
    pub(super) fn short(self, thread: u32, record: Record) -> u64 {
        let thread = u64::from(thread);
        let (kind, address, rest, fits) = match record {
            Record::Freeing { address } => (FREEING, address, 0, thread >> 17 == 0),
            Record::Reallocated { address } => (REALLOCATED, address, 0, thread >> 17 == 0),
            Record::Allocated { address, size, align_log2 } => {
                let (rest, fits) = self.request(thread, size, align_log2);
                (ALLOCATED, address, rest, fits)
            }
            Record::Reallocating { address, size, align_log2 } => {
                let (rest, fits) = self.request(thread, size, align_log2);
                (REALLOCATING, address, rest, fits)
            }
        };
        // Rotation moves the low bits, which must be 0, above the high ones, which must also be 0.
        let place = address.rotate_right(self.aligns[0].into());
        if fits && place >> (64 - ADDRESS) == 0 {
            kind | thread << ROLE | rest | place << ADDRESS
        } else {
            0
        }
    }

    /// Returns alignment and size for a record of one word, and whether they and the thread fit.
    #[cfg(any(test, all(target_os = "linux", target_has_atomic = "64")))]
    #[inline]
    fn request(self, thread: u64, size: u64, align_log2: u8) -> (u64, bool) {
        let align = match align_log2 {
            usual if usual == self.aligns[0] => 0,
            other => self.aligns.iter().position(|&one| one == other).unwrap_or(self.aligns.len()),
        };
        ((align as u64) << 8 | size << 10, (thread >> 5) + (size >> 10) + (align as u64 >> 2) == 0)
    }

    /// Encodes any record made by `thread` in two or three words.
    #[cfg(any(test, all(target_os = "linux", target_has_atomic = "64")))]
    #[cold]
    pub(super) fn long(self, thread: u32, record: Record) -> Words {
        let thread = u64::from(thread);
        let (kind, align_log2, address, size) = match record {
            Record::Allocated { address, size, align_log2 } => {
                (ALLOCATED, align_log2, address, size)
            }
            Record::Freeing { address } => (FREEING, 0, address, 0),
            Record::Reallocating { address, size, align_log2 } => {
                (REALLOCATING, align_log2, address, size)
            }
            Record::Reallocated { address } => (REALLOCATED, 0, address, 0),
        };
        let first = (kind - 1) << 3 | u64::from(align_log2.min(31)) << 5 | thread << 10;
        let further = |value: u64| FURTHER | value << ROLE;
        if thread >> 22 == 0 && size >> 32 == 0 && address >> REST == 0 {
            let words = [FIRST_OF_TWO | first | size << 32, further(address), 0];
            return Words { words, len: 2 };
        }
        let first = FIRST_OF_THREE | first | address >> REST << 42 | size >> REST << 45;
        Words { words: [first, further(address), further(size)], len: 3 }
    }

    /// Decodes the thread and the record, if the word is a complete record.
    #[inline]
    pub(super) fn decode_short(self, word: u64) -> Option<(u32, Record)> {
        let address = word >> ADDRESS << self.aligns[0];
        let align_log2 = self.aligns[field(word, 8, 2) as usize];
        let (few, many) = (field(word, 3, 5) as u32, field(word, 3, 17) as u32);
        let size = field(word, 10, 10);
        Some(match word & 7 {
            ALLOCATED => (few, Record::Allocated { address, size, align_log2 }),
            FREEING => (many, Record::Freeing { address }),
            REALLOCATING => (few, Record::Reallocating { address, size, align_log2 }),
            REALLOCATED => (many, Record::Reallocated { address }),
            _ => return None,
        })
    }

    /// Decodes the thread and the record, or returns why the words are not a record. The first
    /// word's role is [`Role::First`] with this number of words.
    pub(super) fn decode(self, words: &[u64]) -> Result<(u32, Record), &'static str> {
        let (thread, kind, align_log2, address, size) = match *words {
            [word] => return self.decode_short(word).ok_or("it has too few words"),
            [first, address] => {
                let (kind, align) = (field(first, 3, 2) + 1, field(first, 5, 5) as u8);
                (field(first, 10, 22), kind, align, address >> ROLE, first >> 32)
            }
            [first, address, size] => {
                if first >> 48 != 0 {
                    return Err("bits that must be 0 are not");
                }
                let (kind, align) = (field(first, 3, 2) + 1, field(first, 5, 5) as u8);
                let address = address >> ROLE | field(first, 42, 3) << REST;
                (
                    field(first, 10, 32),
                    kind,
                    align,
                    address,
                    size >> ROLE | field(first, 45, 3) << REST,
                )
            }
            _ => return Err("it has too many words"),
        };
        let record = match kind {
            ALLOCATED => Record::Allocated { address, size, align_log2 },
            FREEING => Record::Freeing { address },
            REALLOCATING => Record::Reallocating { address, size, align_log2 },
            REALLOCATED => Record::Reallocated { address },
            _ => return Err("its kind is unknown"),
        };
        Ok((thread as u32, record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the words that a recorder would write.
    fn encode(form: Form, thread: u32, record: Record) -> Words {
        match form.short(thread, record) {
            0 => form.long(thread, record),
            word => Words { words: [word, 0, 0], len: 1 },
        }
    }

    #[test]
    fn records_of_every_length_are_read_back() {
        let addresses =
            [0, 16, 0x7fff_1234_5670, 0xffff_ffff_fff0, 1 << 48, 8, 99, 1 << 61, u64::MAX];
        let sizes = [0, 1, 1023, 1024, u64::from(u32::MAX), 1 << 32, 1 << 61, u64::MAX];
        let threads = [1, 31, 32, (1 << 17) - 1, 1 << 17, (1 << 22) - 1, 1 << 22, u32::MAX];
        let mut lengths = [0; 4];
        for width in [32, 64] {
            let form = Form::new(width);
            for (address, thread) in addresses.iter().flat_map(|&a| threads.map(|t| (a, t))) {
                for (size, align_log2) in
                    sizes.iter().flat_map(|&s| [0, 2, 3, 4, 5, 31].map(|a| (s, a)))
                {
                    for record in [
                        Record::Allocated { address, size, align_log2 },
                        Record::Freeing { address },
                        Record::Reallocating { address, size, align_log2 },
                        Record::Reallocated { address },
                    ] {
                        let Words { words, len } = encode(form, thread, record);
                        let words = &words[..len];
                        assert_eq!(role(words[0]), Role::First(len));
                        assert!(words[1..].iter().all(|&word| role(word) == Role::Further));
                        assert_eq!(form.decode(words), Ok((thread, record)));
                        lengths[len] += 1;
                    }
                }
            }
        }
        assert!(lengths[1..].iter().all(|&count| count > 0), "{lengths:?}");
    }

    /// 32 and more lost their high bits: 40 became 8.
    #[test]
    fn an_alignment_beyond_a_traces_is_the_largest_it_has() {
        for align_log2 in [32, 36, 40, u8::MAX] {
            let form = Form::new(64);
            let read = |record| {
                let Words { words, len } = encode(form, 1, record);
                form.decode(&words[..len]).unwrap().1
            };
            for (address, size) in [(16, 1), (1 << 62, 1 << 40)] {
                assert_eq!(
                    read(Record::Allocated { address, size, align_log2 }),
                    Record::Allocated { address, size, align_log2: 31 }
                );
                assert_eq!(
                    read(Record::Reallocating { address, size, align_log2 }),
                    Record::Reallocating { address, size, align_log2: 31 }
                );
            }
        }
    }

    #[test]
    fn common_records_take_one_word() {
        let address = 0x7f12_3456_7890;
        for align_log2 in [4, 3, 0, 2] {
            for record in [
                Record::Allocated { address, size: 1000, align_log2 },
                Record::Reallocating { address, size: 1000, align_log2 },
                Record::Freeing { address },
                Record::Reallocated { address },
            ] {
                assert_eq!(encode(Form::new(64), 31, record).len, 1);
            }
        }
    }
}
