//! The numbers and locations that unwind data is made of.

use core::ptr::NonNull;

/// The registers of the unwind data: sixteen of the processor, and the return address.
pub(super) const REGISTERS: usize = 17;

/// Number of the stack pointer, `rsp`.
pub(super) const STACK_POINTER: usize = 7;

/// Number of the return address.
pub(super) const RETURN_ADDRESS: usize = 16;

/// An address: the value of a register plus an offset, or what the word there holds.
#[derive(Clone, Copy)]
pub(super) struct Location {
    /// Number of the register.
    pub(super) register: u8,
    /// Bytes to add to its value.
    pub(super) offset: i32,
    /// Whether the word there holds the address.
    pub(super) is_loaded: bool,
}

impl Location {
    /// Returns the address `offset` bytes from what a register holds.
    pub(super) fn at(register: u8, offset: i32) -> Self {
        Self { register, offset, is_loaded: false }
    }
}

/// Reads unwind data.
pub(super) struct Reader {
    /// What is read next.
    pub(super) at: *const u8,
    /// Where the data ends; nothing is read from here on.
    pub(super) end: *const u8,
}

impl Reader {
    /// Returns a reader of what follows an entry's length.
    ///
    /// # Safety
    /// An entry of a loaded file begins there.
    pub(super) unsafe fn of(entry: NonNull<u8>) -> Option<Self> {
        /// Lengths from here on announce one of eight bytes.
        const LONG: usize = 0xffff_fff0;
        let at = entry.as_ptr().cast_const();
        let mut reader = Self { at, end: at.wrapping_add(4) };
        // SAFETY: the length is there.
        let len = unsafe { reader.fixed::<4>() }?;
        reader.end = reader.at.wrapping_add(len);
        (len < LONG).then_some(reader)
    }

    /// Skips `len` bytes; `None` if there are fewer.
    pub(super) fn skip(&mut self, len: usize) -> Option<()> {
        let is_within = len <= self.end.addr().saturating_sub(self.at.addr());
        is_within.then(|| self.at = self.at.wrapping_add(len))
    }

    /// Reads an unsigned number of `LEN` bytes.
    ///
    /// # Safety
    /// The bytes up to the reader's end are a loaded file's.
    pub(super) unsafe fn fixed<const LEN: usize>(&mut self) -> Option<usize> {
        let start = self.at;
        self.skip(LEN)?;
        let mut bytes = [0; 8];
        // SAFETY: the bytes are before the end.
        bytes[..LEN].copy_from_slice(&unsafe { start.cast::<[u8; LEN]>().read() });
        Some(usize::from_le_bytes(bytes))
    }

    /// Reads a number of seven bits a byte (LEB128), and returns its bits and how many there are.
    ///
    /// # Safety
    /// As [`fixed`](Self::fixed).
    unsafe fn bits(&mut self) -> Option<(usize, u32)> {
        let (mut value, mut shift) = (0_usize, 0_u32);
        loop {
            // SAFETY: as the caller promises.
            let byte = unsafe { self.fixed::<1>() }?;
            value |= (byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte < 0x80 {
                return Some((value, shift));
            }
        }
    }

    /// Reads an unsigned number in LEB128.
    ///
    /// # Safety
    /// As [`fixed`](Self::fixed).
    pub(super) unsafe fn unsigned(&mut self) -> Option<usize> {
        // SAFETY: as the caller promises.
        unsafe { self.bits() }.map(|(value, _)| value)
    }

    /// Reads a signed number in LEB128.
    ///
    /// # Safety
    /// As [`fixed`](Self::fixed).
    pub(super) unsafe fn signed(&mut self) -> Option<i32> {
        // SAFETY: as the caller promises.
        let (value, bits) = unsafe { self.bits() }?;
        let unused = usize::BITS.saturating_sub(bits);
        i32::try_from((value << unused).cast_signed() >> unused).ok()
    }

    /// Reads an offset that is encoded as an unsigned number.
    ///
    /// # Safety
    /// As [`fixed`](Self::fixed).
    pub(super) unsafe fn offset(&mut self) -> Option<i32> {
        // SAFETY: as the caller promises.
        i32::try_from(unsafe { self.unsigned() }?).ok()
    }

    /// Reads the number of a register that a location may be told by.
    ///
    /// # Safety
    /// As [`fixed`](Self::fixed).
    pub(super) unsafe fn register(&mut self) -> Option<u8> {
        // SAFETY: as the caller promises.
        u8::try_from(unsafe { self.unsigned() }?).ok()
    }

    /// Reads a byte.
    ///
    /// # Safety
    /// As [`fixed`](Self::fixed).
    pub(super) unsafe fn byte(&mut self) -> Option<u8> {
        // SAFETY: as the caller promises.
        unsafe { self.fixed::<1>() }.map(|byte| byte as u8)
    }

    /// Reads an expression of the kind that glibc's signal frames have: a register and an offset,
    /// and perhaps the word there.
    ///
    /// # Safety
    /// As [`fixed`](Self::fixed).
    pub(super) unsafe fn expression(&mut self) -> Option<Location> {
        /// The operation `DW_OP_breg0`.
        const REGISTER: u8 = 0x70;
        /// The operation `DW_OP_deref`.
        const LOAD: usize = 0x06;
        // SAFETY: as the caller promises.
        unsafe {
            let len = self.unsigned()?;
            let mut code = Self { at: self.at, end: self.at.wrapping_add(len) };
            self.skip(len)?;
            let register = code.byte()?.checked_sub(REGISTER)?;
            let offset = code.signed()?;
            let is_loaded = code.at < code.end;
            let is_known =
                usize::from(register) < REGISTERS && (!is_loaded || code.fixed::<1>()? == LOAD);
            (is_known && code.at == code.end).then_some(Location { register, offset, is_loaded })
        }
    }
}
