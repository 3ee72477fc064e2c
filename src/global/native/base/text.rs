//! Formats text for standard error without allocating.

use core::fmt::{self, Write};

use crate::os;

/// A buffer on the stack for text to standard error. Writing a piece that is longer than the buffer
/// is an error.
pub(in crate::global::native) struct Text {
    /// The buffer.
    bytes: [u8; 1024],
    /// Bytes in it.
    len: usize,
}

impl Text {
    /// Makes an empty buffer.
    pub(in crate::global::native) fn new() -> Self {
        Self { bytes: [0; 1024], len: 0 }
    }

    /// Writes the buffered text, and empties the buffer.
    pub(in crate::global::native) fn flush(&mut self) {
        os::write(&self.bytes[..self.len]);
        self.len = 0;
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() > self.bytes.len() - self.len {
            self.flush();
        }
        let room = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::os::alone;

    /// Pieces are buffered until the next does not fit, so a line is written at once; a piece
    /// longer than the buffer is an error.
    #[test]
    fn pieces_are_written_together() {
        let run = alone::passes("global::native::base::text::tests::pieces");
        let written = ["abcd".repeat(256), "efg".to_owned(), "h".repeat(1024)].concat();
        assert_eq!(String::from_utf8_lossy(&run.stderr), written);
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn pieces() {
        let mut text = Text::new();
        for at in 1..=4 {
            assert_eq!(text.write_str(&"abcd".repeat(64)), Ok(()));
            assert_eq!(text.len, 256 * at);
        }
        assert_eq!(text.write_str(""), Ok(()));
        assert_eq!(text.len, 1024, "there was room");
        assert_eq!(text.write_str("efg"), Ok(()));
        assert_eq!(text.len, 3);
        assert_eq!(text.write_str(&"x".repeat(1025)), Err(fmt::Error));
        assert_eq!(text.write_str(&"h".repeat(1024)), Ok(()));
        text.flush();
        assert_eq!(text.len, 0);
    }
}
