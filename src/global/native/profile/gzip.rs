//! Writes a gzip file (RFC 1952) of stored blocks (RFC 1951, §3.2.4). The data is not compressed:
//! readers of profiles accept stored blocks, and this library should not contain a compressor.

/// The most bytes of a stored block.
const BLOCK: usize = 8 << 10;

/// A gzip file that is being written to `sink`.
pub(super) struct Gzip<'a> {
    /// Takes a piece of the file, and returns whether it could.
    sink: &'a mut dyn FnMut(&[u8]) -> bool,
    /// Whether the sink could not take a piece: then nothing more is written.
    failed: bool,
    /// The next stored block.
    block: [u8; BLOCK],
    /// Bytes in it.
    used: usize,
    /// The CRC-32 of the data so far, inverted.
    check: u32,
    /// Bytes of the data so far, modulo 2³².
    len: u32,
}

impl<'a> Gzip<'a> {
    /// Begins a file.
    pub(super) fn new(sink: &'a mut dyn FnMut(&[u8]) -> bool) -> Self {
        // No file name, no modification time, operating system unknown.
        const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
        let failed = !sink(&HEADER);
        Self { sink, failed, block: [0; BLOCK], used: 0, check: !0, len: 0 }
    }

    /// Adds data to the file.
    pub(super) fn write(&mut self, mut bytes: &[u8]) {
        self.len = self.len.wrapping_add(bytes.len() as u32);
        self.check = bytes
            .iter()
            .fold(self.check, |check, byte| TABLE[usize::from(check as u8 ^ byte)] ^ check >> 8);
        while !bytes.is_empty() {
            if self.used == BLOCK {
                self.flush(false);
            }
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.used));
            self.block[self.used..self.used + now.len()].copy_from_slice(now);
            self.used += now.len();
            bytes = later;
        }
    }

    /// Writes the pending stored block.
    fn flush(&mut self, last: bool) {
        let [low, high] = (self.used as u16).to_le_bytes();
        let header = [u8::from(last), low, high, !low, !high];
        self.failed =
            self.failed || !(self.sink)(&header) || !(self.sink)(&self.block[..self.used]);
        self.used = 0;
    }

    /// Ends the file. Returns whether the sink took all of it.
    pub(super) fn finish(mut self) -> bool {
        self.flush(true);
        let (check, len) = ((!self.check).to_le_bytes(), self.len.to_le_bytes());
        !self.failed && (self.sink)(&check) && (self.sink)(&len)
    }
}

/// The CRC-32 (reflected) of each byte value.
static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut check = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            check = (check >> 1) ^ (0xedb8_8320 * (check & 1));
            bit += 1;
        }
        table[byte] = check;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn zipped(pieces: &[&[u8]], room: usize) -> Option<Vec<u8>> {
        let mut file = Vec::new();
        let mut sink = |bytes: &[u8]| {
            let fits = file.len() + bytes.len() <= room;
            file.extend(bytes.iter().filter(|_| fits));
            fits
        };
        let mut gzip = Gzip::new(&mut sink);
        pieces.iter().for_each(|piece| gzip.write(piece));
        gzip.finish().then_some(file)
    }

    #[test]
    fn written_bytes_are_read_back() {
        let long: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(n) >> 5) as u8).collect();
        for pieces in
            [vec![], vec![&b"one"[..]], vec![&long[..BLOCK], &long[..1], &long], vec![&long; 3]]
        {
            let file = zipped(&pieces, usize::MAX).expect("there is room");
            let mut read = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(&file[..]);
            decoder.read_to_end(&mut read).expect("the check value is right");
            assert_eq!(read, pieces.concat());
            for room in [0, 9, 10, 14, file.len() - 5, file.len() - 1] {
                assert!(zipped(&pieces, room).is_none(), "{room} bytes are too few");
            }
        }
    }
}
