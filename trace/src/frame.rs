//! Frames: the body of a trace file in pieces, each compressed and with its own checksum, so that a
//! damaged piece is refused before any of its events is seen, and memory stays small whatever a
//! file claims.
//!
//! ```text
//!  0  compressed length  u32   bytes of the deflate stream
//!  4  content length     u32   bytes it expands to: 1 … 2²⁰
//!  8  deflate stream (RFC 1951)
//!  …  CRC-32 (IEEE) of all the bytes of the frame before
//! ```

use std::io::{self, Read, Write};

use flate2::{Compression, Decompress, FlushDecompress, Status};

use super::error::Reason;
use super::header::fill;

/// Maximum bytes of content in a frame.
pub(crate) const LARGEST: usize = 1 << 20;
/// Maximum bytes of a deflate stream: incompressible content is stored in pieces with a few bytes
/// of overhead each.
const LARGEST_COMPRESSED: usize = LARGEST + LARGEST / 1024 + 64;

/// Compression level: higher ones take longer and gain nothing. The workbench compresses with
/// zlib-rs, which at this level is faster than others at lower ones.
const LEVEL: u32 = 6;

/// Maximum expansion of a deflate stream: a match of 258 bytes takes at least two bits.
pub(crate) const BEST_RATIO: u64 = 258 * 8 / 2;

/// Writes `content` (1 … [`LARGEST`] bytes) as a frame; returns the bytes written.
pub(crate) fn write(out: &mut impl Write, content: &[u8]) -> io::Result<u64> {
    debug_assert!((1..=LARGEST).contains(&content.len()));
    let mut frame = vec![0; 4];
    frame.extend((content.len() as u32).to_le_bytes());
    let mut encoder = flate2::write::DeflateEncoder::new(frame, Compression::new(LEVEL));
    encoder.write_all(content)?;
    let mut frame = encoder.finish()?;
    let compressed = (frame.len() - 8) as u32;
    frame[..4].copy_from_slice(&compressed.to_le_bytes());
    frame.extend(crc32fast::hash(&frame).to_le_bytes());
    out.write_all(&frame)?;
    Ok(frame.len() as u64)
}

/// Reads frames; reuses its buffers.
pub(crate) struct FrameReader {
    inflate: Decompress,
    compressed: Vec<u8>,
    content: Vec<u8>,
}

impl FrameReader {
    pub(crate) fn new() -> Self {
        Self { inflate: Decompress::new(false), compressed: Vec::new(), content: Vec::new() }
    }

    /// Reads the next frame; returns its length in the file, or `None` at the end of the input.
    pub(crate) fn read(&mut self, input: &mut impl Read) -> Result<Option<u64>, Reason> {
        let mut lengths = [0; 8];
        match fill(input, &mut lengths)? {
            0 => return Ok(None),
            8 => {}
            _ => return Err(Reason::Truncated),
        }
        let [c0, c1, c2, c3, l0, l1, l2, l3] = lengths;
        let compressed = u32::from_le_bytes([c0, c1, c2, c3]) as usize;
        let content = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if compressed > LARGEST_COMPRESSED || !(1..=LARGEST).contains(&content) {
            return Err(Reason::Frame("its length is out of bounds"));
        }
        self.compressed.resize(compressed + 4, 0);
        if fill(input, &mut self.compressed)? < self.compressed.len() {
            return Err(Reason::Truncated);
        }
        let (stream, checksum) = self.compressed.split_at(compressed);
        let mut crc = crc32fast::Hasher::new();
        crc.update(&lengths);
        crc.update(stream);
        if crc.finalize().to_le_bytes() != checksum {
            return Err(Reason::Checksum);
        }
        // One byte more than claimed, to detect a stream that expands further.
        self.content.resize(content + 1, 0);
        self.inflate.reset(false);
        let status = self.inflate.decompress(stream, &mut self.content, FlushDecompress::Finish);
        let all = self.inflate.total_in() == compressed as u64
            && self.inflate.total_out() == content as u64;
        if !matches!(status, Ok(Status::StreamEnd)) || !all {
            return Err(Reason::Frame("its content does not expand as claimed"));
        }
        self.content.truncate(content);
        Ok(Some((lengths.len() + compressed + 4) as u64))
    }

    /// Returns the content of the last frame read.
    pub(crate) fn content(&self) -> &[u8] {
        &self.content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_that_does_not_compress_fits() {
        let words =
            (0..LARGEST.div_ceil(4) as u32).map(|word| crc32fast::hash(&word.to_le_bytes()));
        let noise: Vec<u8> = words.flat_map(u32::to_le_bytes).take(LARGEST).collect();
        let mut file = Vec::new();
        let length = write(&mut file, &noise).unwrap();
        let mut reader = FrameReader::new();
        assert_eq!(reader.read(&mut &file[..]).unwrap(), Some(length));
        assert!(reader.content() == noise);
    }

    #[test]
    fn a_length_out_of_bounds_is_refused_before_anything_is_read() {
        let read = |compressed: usize, content: usize| {
            let lengths = [compressed as u32, content as u32].map(u32::to_le_bytes);
            FrameReader::new().read(&mut lengths.as_flattened()).unwrap_err()
        };
        let (most, largest) = ((1 << 20) + (1 << 10) + 64, 1 << 20);
        for (compressed, content) in [(most, largest), (0, 1)] {
            assert!(matches!(read(compressed, content), Reason::Truncated));
        }
        for (compressed, content) in [(most + 1, largest), (most, largest + 1), (10, 0)] {
            assert!(matches!(read(compressed, content), Reason::Frame(_)));
        }
    }

    #[test]
    fn a_stream_that_expands_further_is_refused() {
        let mut file = Vec::new();
        write(&mut file, &[7; 1000]).unwrap();
        for claimed in [999_u32, 1001] {
            let mut forged = file.clone();
            forged[4..8].copy_from_slice(&claimed.to_le_bytes());
            let body = forged.len() - 4;
            let crc = crc32fast::hash(&forged[..body]);
            forged[body..].copy_from_slice(&crc.to_le_bytes());
            let error = FrameReader::new().read(&mut &forged[..]).unwrap_err();
            assert!(matches!(error, Reason::Frame(_)), "{error:?}");
        }
    }
}
