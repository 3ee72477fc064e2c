//! Text for standard error, made without allocating.

use core::fmt::{self, Write};

use crate::os;

/// Text on its way to standard error, on the stack. A piece that is longer than the buffer is an error.
pub(super) struct Text {
    bytes: [u8; 1024],
    len: usize,
}

impl Text {
    pub(super) fn new() -> Self {
        Self { bytes: [0; 1024], len: 0 }
    }

    /// Writes what there is.
    pub(super) fn write(&mut self) {
        os::write(&self.bytes[..self.len]);
        self.len = 0;
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() > self.bytes.len() - self.len {
            self.write();
        }
        let room = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}
