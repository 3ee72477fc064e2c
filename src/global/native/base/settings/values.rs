//! Values of settings: numbers, bytes, switches.

use core::ops::RangeInclusive;

/// Parses a number in a range.
pub(super) fn number(text: &str, range: RangeInclusive<u64>) -> Option<u64> {
    text.parse().ok().filter(|number| range.contains(number))
}

/// Parses a number of bytes in a range: `65536`, `64K`, `1M`, `1G`.
pub(super) fn bytes(text: &str, range: RangeInclusive<usize>) -> Option<usize> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (text.get(..text.len() - 1)?, 10),
        b'M' => (text.get(..text.len() - 1)?, 20),
        b'G' => (text.get(..text.len() - 1)?, 30),
        _ => (text, 0),
    };
    let bytes = digits.parse::<usize>().ok()?.checked_mul(1 << shift)?;
    range.contains(&bytes).then_some(bytes)
}

/// Parses 0 or 1.
pub(super) fn switch(text: &str) -> Option<bool> {
    Some(number(text, 0..=1)? == 1)
}
