//! The sites of the allocations and reallocations in a frame of events, in a frame that follows it.
//!
//! ```text
//!  number of sites, then each as its distance from the one before (0 at first), zigzag
//! ```

use std::io::Read;

use super::error::Reason;
use super::frame::FrameReader;
use super::varint;

/// Collects the sites of a frame.
#[derive(Default)]
pub(crate) struct SiteEncoder {
    bytes: Vec<u8>,
    count: u64,
    last: u32,
    most: u32,
}

impl SiteEncoder {
    pub(crate) fn push(&mut self, site: u32) {
        let distance = i64::from(site) - i64::from(self.last);
        varint::write(&mut self.bytes, varint::zigzag(distance));
        self.count += 1;
        self.last = site;
        self.most = self.most.max(site);
    }

    /// Returns the number of bytes collected.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the greatest site.
    pub(crate) fn most(&self) -> u32 {
        self.most
    }

    /// Returns the content of the frame, and starts the next one.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let mut content = Vec::with_capacity(self.bytes.len() + 10);
        varint::write(&mut content, self.count);
        content.append(&mut self.bytes);
        self.count = 0;
        content
    }
}

/// Decodes the sites of a frame.
pub(crate) struct SiteDecoder {
    frames: FrameReader,
    consumed: usize,
    left: u64,
    last: u32,
    most: u32,
}

impl Default for SiteDecoder {
    fn default() -> Self {
        Self { frames: FrameReader::new(), consumed: 0, left: 0, last: 0, most: 0 }
    }
}

impl SiteDecoder {
    /// Reads the next frame of sites; returns its length.
    pub(crate) fn read(&mut self, input: &mut impl Read) -> Result<u64, Reason> {
        let length = self.frames.read(input)?.ok_or(Reason::Truncated)?;
        let mut rest = self.frames.content();
        self.left = varint::read(&mut rest).ok_or(Reason::Frame("its sites are cut short"))?;
        self.consumed = self.frames.content().len() - rest.len();
        Ok(length)
    }

    /// Returns the site of the next event with one.
    pub(crate) fn next(&mut self) -> Result<u32, Reason> {
        let content = self.frames.content();
        let mut rest = content.get(self.consumed..).unwrap_or_default();
        let cut = Reason::Frame("its sites are cut short");
        let (Some(left), Some(distance)) = (self.left.checked_sub(1), varint::read(&mut rest))
        else {
            return Err(cut);
        };
        let site = i64::from(self.last).checked_add(varint::unzigzag(distance));
        let Some(site) = site.and_then(|site| u32::try_from(site).ok()) else {
            return Err(Reason::Frame("a site is out of bounds"));
        };
        self.consumed = content.len() - rest.len();
        self.left = left;
        self.last = site;
        self.most = self.most.max(site);
        Ok(site)
    }

    /// Returns whether the frame has no more sites than events.
    pub(crate) fn end(&self) -> Result<(), Reason> {
        if self.left == 0 && self.consumed == self.frames.content().len() {
            Ok(())
        } else {
            Err(Reason::Frame("it has sites without events"))
        }
    }

    /// Returns the greatest site so far.
    pub(crate) fn most(&self) -> u32 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;

    /// Makes a decoder read a frame with this content.
    fn read(mut decoder: SiteDecoder, content: &[u8]) -> SiteDecoder {
        let mut file = Vec::new();
        frame::write(&mut file, content).unwrap();
        assert_eq!(decoder.read(&mut &file[..]).unwrap(), file.len() as u64);
        decoder
    }

    #[test]
    fn sites_are_read_back_frame_by_frame() {
        let (mut encoder, mut decoder) = (SiteEncoder::default(), SiteDecoder::default());
        for (sites, most) in [(&[3, 9, 0][..], 9), (&[], 9), (&[u32::MAX, 7], u32::MAX)] {
            sites.iter().for_each(|&site| encoder.push(site));
            decoder = read(decoder, &encoder.take());
            for &site in sites {
                assert!(decoder.end().is_err(), "there are more");
                assert_eq!(decoder.next().unwrap(), site);
            }
            assert!(decoder.end().is_ok() && decoder.next().is_err());
            assert_eq!((encoder.most(), decoder.most()), (most, most));
        }
    }

    /// The number of sites, and then two: fewer than it says, or more.
    #[test]
    fn sites_that_are_not_as_many_as_claimed_are_refused() {
        let forged = |content| read(SiteDecoder::default(), content);
        let mut fewer = forged(&[3, 0, 0]);
        assert!(fewer.next().is_ok() && fewer.next().is_ok() && fewer.end().is_err());
        assert!(fewer.next().is_err());
        let mut more = forged(&[1, 0, 0]);
        assert!(more.next().is_ok() && more.end().is_err());
        assert!(more.next().is_err());
        let mut negative = forged(&[1, 1]);
        assert!(negative.next().is_err());
    }
}
