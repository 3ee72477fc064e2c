//! Numbers of variable length (LEB128): seven bits per byte, least significant first; the top bit
//! is set on every byte except the last.

/// Appends `value`.
#[inline]
pub(crate) fn write(out: &mut Vec<u8>, value: u64) {
    // Most numbers are small.
    if value < 0x80 {
        out.push(value as u8);
    } else {
        write_long(out, value);
    }
}

fn write_long(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a number from the front of `bytes` and advances past it; `None` if it is truncated, longer
/// than necessary, or above 64 bits.
#[inline]
pub(crate) fn read(bytes: &mut &[u8]) -> Option<u64> {
    match bytes.split_first() {
        // Most numbers are small.
        Some((&byte, rest)) if byte < 0x80 => {
            *bytes = rest;
            Some(byte.into())
        }
        _ => read_long(bytes),
    }
}

fn read_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        value |= bits << shift;
        // A first byte of 0 does not come here.
        if (value >> shift) != bits || byte == 0 {
            return None;
        }
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Maps small positive and negative numbers to small ones: 0, −1, 1, −2 … to 0, 1, 2, 3 …
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Returns the inverse of [`zigzag`].
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_read_back() {
        for value in (0..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
            let mut bytes = Vec::new();
            write(&mut bytes, value);
            let mut rest = &bytes[..];
            assert_eq!(read(&mut rest), Some(value));
            assert!(rest.is_empty());
            assert_eq!(read(&mut &bytes[..bytes.len() - 1]), None);
            assert_eq!(unzigzag(zigzag(value as i64)), value as i64);
        }
    }

    #[test]
    fn only_the_shortest_form_is_taken() {
        assert_eq!(read(&mut &[0x80, 0x00][..]), None);
        assert_eq!(read(&mut &[0xff; 10][..]), None);
        let over = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(read(&mut &over[..]), None);
    }
}
