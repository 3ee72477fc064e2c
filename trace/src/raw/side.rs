//! Records other than events: the time; and, if requested, call stacks, as a tree, and the modules
//! that contain their addresses.
//!
//! The first word has the role of a record of three words and its highest bit set; it gives the
//! number of further words:
//! ```text
//!  bits   3      43      12       5     1
//!         6  │ value │ further │ kind │ 1
//!  stack   value: the node of the record that follows directly
//!  node    value: its number, from 1; further: parent (0: none), return address (61 bits)
//!  module  value: bytes of the build id; further: start, end, bias, then build id and path as text
//!  time    value: microseconds of the system's clock, its low bits
//!  text    bits  3      5       56
//!                7  │ count │ up to 7 bytes
//! ```
//! A node is recorded before the first record that names it. Two nodes may be the same frame below
//! the same parent, since threads do not wait for each other. For the same reason a time may come
//! after a later one.

/// The contents of a side record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Stack { node: u64 },
    Node { node: u64, parent: u64, address: u64 },
    Module { start: u64, end: u64, bias: u64, build_id: Vec<u8>, path: Vec<u8> },
    Time { microseconds: u64 },
}

const ROLE: u64 = 6;
#[cfg(any(test, all(target_os = "linux", target_has_atomic = "64")))]
const FURTHER: u64 = 7;
const SIDE: u64 = 1 << 63;
const STACK: u64 = 0;
const NODE: u64 = 1;
const MODULE: u64 = 2;
const TIME: u64 = 3;
const BYTES: usize = 7;
const VALUE: u32 = 43;
/// The end of the addresses that fit a word.
#[cfg(any(test, all(target_os = "linux", target_has_atomic = "64")))]
pub(super) const END: u64 = 1 << 61;
/// Maximum number of further words of a side record.
pub(super) const MOST_FURTHER: usize = (1 << 12) - 1;

/// Returns the number of further words, if the word begins a side record.
pub(super) fn further(word: u64) -> Option<usize> {
    (word & 7 == ROLE && word & SIDE != 0).then_some((word >> 46) as usize & MOST_FURTHER)
}

/// Returns the node, if the word is a stack record.
#[inline]
pub(super) fn node_of_stack(word: u64) -> Option<u64> {
    const VALUES: u64 = ((1 << VALUE) - 1) << 3;
    (word & !VALUES == ROLE | STACK << 58 | SIDE).then_some((word & VALUES) >> 3)
}

#[cfg(any(test, all(target_os = "linux", target_has_atomic = "64")))]
mod encode {
    use super::{BYTES, FURTHER, MODULE, NODE, ROLE, SIDE, STACK, TIME, VALUE};

    fn first(kind: u64, further: usize, value: u64) -> u64 {
        ROLE | (value & ((1 << VALUE) - 1)) << 3 | (further as u64) << 46 | kind << 58 | SIDE
    }

    fn number(value: u64) -> u64 {
        FURTHER | value << 3
    }

    /// Returns the word that precedes a record made at this node.
    pub(in super::super) fn stack(node: u64) -> u64 {
        first(STACK, 0, node)
    }

    /// Returns the time as a record of one word.
    pub(in super::super) fn time(microseconds: u64) -> u64 {
        first(TIME, 0, microseconds)
    }

    pub(in super::super) fn node(node: u64, parent: u64, address: u64) -> [u64; 3] {
        [first(NODE, 2, node), number(parent), number(address)]
    }

    /// Returns the words of a module's record.
    pub(in super::super) fn module_words(build_id: &[u8], path: usize) -> usize {
        4 + build_id.len().div_ceil(BYTES) + path.div_ceil(BYTES)
    }

    /// Returns the word `index` of a module's record; `byte` returns the path's bytes.
    pub(in super::super) fn module_word(
        index: usize,
        bounds: [u64; 3],
        build_id: &[u8],
        path: usize,
        byte: impl Fn(usize) -> u8,
    ) -> u64 {
        let id_words = build_id.len().div_ceil(BYTES);
        let text = |at: usize, len: usize, byte: &dyn Fn(usize) -> u8| {
            let count = (len - at).min(BYTES);
            let bytes = (0..count).fold(0, |bytes, i| bytes | u64::from(byte(at + i)) << (8 * i));
            FURTHER | (count as u64) << 3 | bytes << 8
        };
        match index {
            0 => first(MODULE, module_words(build_id, path) - 1, build_id.len() as u64),
            1..=3 => number(bounds[index - 1]),
            _ if index < 4 + id_words => {
                text((index - 4) * BYTES, build_id.len(), &|at| build_id[at])
            }
            _ => text((index - 4 - id_words) * BYTES, path, &byte),
        }
    }
}
#[cfg(any(test, all(target_os = "linux", target_has_atomic = "64")))]
pub(super) use encode::{module_word, module_words, node, stack, time};

/// Decodes a side record: its first word, and as many further ones as that says.
pub(super) fn decode(first: u64, words: &[u64]) -> Result<Side, &'static str> {
    let value = first >> 3 & ((1 << VALUE) - 1);
    match (first >> 58 & 31, words) {
        (STACK, []) => Ok(Side::Stack { node: value }),
        (TIME, []) => Ok(Side::Time { microseconds: value }),
        (NODE, &[parent, address]) => {
            Ok(Side::Node { node: value, parent: parent >> 3, address: address >> 3 })
        }
        (MODULE, [start, end, bias, text @ ..]) => {
            let id_words = usize::try_from(value).ok().map(|len| len.div_ceil(BYTES));
            let (id, path) = id_words
                .and_then(|words| text.split_at_checked(words))
                .ok_or("a module's build id is cut short")?;
            Ok(Side::Module {
                start: start >> 3,
                end: end >> 3,
                bias: bias >> 3,
                build_id: bytes(id),
                path: bytes(path),
            })
        }
        _ => Err("its kind is unknown"),
    }
}

/// Returns the microseconds from `first` to `then`; 0 if `then` is earlier. Only the low bits of
/// `then` are known.
pub(super) fn since(first: u64, then: u64) -> u64 {
    let passed = then.wrapping_sub(first) & ((1 << VALUE) - 1);
    if passed >> (VALUE - 1) == 0 { passed } else { 0 }
}

fn bytes(words: &[u64]) -> Vec<u8> {
    let of = |&word: &u64| {
        let count = (word >> 3 & 31).min(BYTES as u64) as usize;
        word.to_le_bytes()[1..=count].to_vec()
    };
    words.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn side_records_are_read_back() {
        assert_eq!(further(stack(77)), Some(0));
        assert_eq!(node_of_stack(stack(77)), Some(77));
        assert_eq!(node_of_stack(stack((1 << 43) - 1)), Some((1 << 43) - 1));
        for other in [time(77), node(77, 1, 1)[0], stack(77) | 1 << 46, 6, 1, 0] {
            assert_eq!(node_of_stack(other), None);
        }
        assert_eq!(decode(stack(77), &[]), Ok(Side::Stack { node: 77 }));
        assert_eq!(further(time(99)), Some(0));
        assert_eq!(decode(time((1 << 43) + 99), &[]), Ok(Side::Time { microseconds: 99 }));
        let [first, rest @ ..] = node(1 << 40, 9, 0x7fff_ffff_f123);
        assert_eq!(further(first), Some(2));
        let expected = Side::Node { node: 1 << 40, parent: 9, address: 0x7fff_ffff_f123 };
        assert_eq!(decode(first, &rest), Ok(expected));
        for (id, path) in [(&b""[..], &b""[..]), (&[7; 20], b"/usr/lib/libc.so.6"), (&[1; 7], b"a")]
        {
            let len = module_words(id, path.len());
            let words: Vec<u64> = (0..len)
                .map(|at| module_word(at, [1, 1 << 60, 3], id, path.len(), |at| path[at]))
                .collect();
            assert_eq!(further(words[0]), Some(len - 1));
            assert!(words[1..].iter().all(|word| word & 7 == FURTHER));
            let expected = Side::Module {
                start: 1,
                end: 1 << 60,
                bias: 3,
                build_id: id.to_vec(),
                path: path.to_vec(),
            };
            assert_eq!(decode(words[0], &words[1..]), Ok(expected));
        }
    }

    #[test]
    fn times_advance_although_their_high_bits_are_lost() {
        assert_eq!([since(7, 9), since(9, 7), since((1 << 43) - 2, 3)], [2, 0, 5]);
    }

    #[test]
    fn other_words_are_not_side_records() {
        for word in [0, 1, 5, 6, 7, SIDE | 5, SIDE | 7] {
            assert_eq!(further(word), None);
        }
        assert!(decode(stack(1) | 9 << 58, &[]).is_err());
        assert!(decode(stack(1), &[7]).is_err());
        let short = module_word(0, [0; 3], &[1; 20], 0, |_| 0);
        assert!(decode(short, &[7, 7, 7, 7]).is_err());
    }
}
