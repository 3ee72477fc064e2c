//! A walk along a thread's stack that survives garbage, on x86-64 Linux with glibc.
//!
//! The system's unwinder trusts what it finds. At a return address without unwind data it reads the
//! instructions there, to see whether they return from a signal handler. So it faults where a
//! return address is stale: in a program that switches stacks by copying them (greenlets), or that
//! unmaps code which it compiled. This walk ends there instead. It reads the same unwind data (the
//! DWARF 5 standard, section 6.4, with the extensions of the Linux Standard Base, `.eh_frame`),
//! which the unwinder finds, and checks every page of the stack before it reads it.

use core::ptr::{self, NonNull};

use crate::os;

/// The registers of the unwind data: sixteen of the processor, and the return address.
const REGISTERS: usize = 17;
const STACK_POINTER: usize = 7;
const RETURN_ADDRESS: usize = 16;

/// What `_Unwind_Find_FDE` tells besides the entry: addresses that its data may be relative to, and
/// where the function begins.
#[repr(C)]
struct Bases([*const u8; 2], *const u8);

unsafe extern "C" {
    fn _Unwind_Find_FDE(address: *const u8, bases: *mut Bases) -> *const u8;
}

/// Calls `each` with the return address and the stack pointer of the calling thread's frames, from
/// the innermost outwards, until it returns `false` or a frame cannot be told.
pub(super) fn walk(mut each: impl FnMut(usize, usize) -> bool) {
    /// More frames than a caller asks for; ends a walk that goes round in a circle.
    const MOST: usize = 1024;
    // The check of a page sets it.
    let _errno = os::KeepErrno::new();
    let mut frame = Frame::here();
    for _ in 0..MOST {
        let known = (frame.registers[RETURN_ADDRESS], frame.registers[STACK_POINTER]);
        let (Some(address), Some(stack)) = known else { return };
        if address == 0 || !each(address, stack) {
            return;
        }
        let Some(caller) = frame.caller(address, stack) else { return };
        frame = caller;
    }
}

/// A function that was called and has not returned yet.
struct Frame {
    /// Values of the registers, where known. The last is where the function goes on.
    registers: [Option<usize>; REGISTERS],
    /// Whether the function was interrupted, so that it goes on with an instruction of its own, and
    /// not with what follows a call.
    is_interrupted: bool,
    /// The last page of the stack that was found readable.
    readable: usize,
}

impl Frame {
    /// Returns the frame of the function that calls this.
    #[inline(always)]
    fn here() -> Self {
        let mut values = [0_usize; REGISTERS];
        // SAFETY: writes registers to their places in `values`.
        unsafe {
            core::arch::asm!(
                "mov [{values} + 24], rbx",
                "mov [{values} + 48], rbp",
                "mov [{values} + 56], rsp",
                "mov [{values} + 96], r12",
                "mov [{values} + 104], r13",
                "mov [{values} + 112], r14",
                "mov [{values} + 120], r15",
                "lea {address}, [rip]",
                "mov [{values} + 128], {address}",
                values = in(reg) values.as_mut_ptr(),
                address = out(reg) _,
                options(nostack, preserves_flags),
            );
        }
        let registers = values.map(|value| (value != 0).then_some(value));
        Self { registers, is_interrupted: true, readable: 0 }
    }

    /// Returns the caller's frame, if unwind data tells it and its stack can be read.
    fn caller(mut self, address: usize, stack: usize) -> Option<Self> {
        let within = address - usize::from(!self.is_interrupted);
        let mut bases = Bases([ptr::null(); 2], ptr::null());
        // SAFETY: the call accepts any address, and writes `bases`.
        let entry = unsafe { _Unwind_Find_FDE(ptr::without_provenance(within), &raw mut bases) };
        let entry = NonNull::new(entry.cast_mut())?;
        // SAFETY: the unwinder found the entry, whose file is loaded while its code is on a stack.
        let rules = unsafe { Rules::read(entry, within.checked_sub(bases.1.addr())?) }?;
        let base = self.place(rules.base)?;
        // Only a signal may have changed to a stack at lower addresses.
        if base <= stack && !rules.is_signal {
            return None;
        }
        let mut registers = self.registers;
        registers[STACK_POINTER] = Some(base);
        for (register, &rule) in registers.iter_mut().zip(&rules.registers) {
            match rule {
                Rule::Same => {}
                Rule::Unknown => *register = None,
                Rule::Saved(offset) => {
                    *register = Some(self.word(at(base, offset))?);
                }
                Rule::Is(offset) => *register = Some(at(base, offset)),
                Rule::SavedAt(place) => {
                    let place = self.place(place)?;
                    *register = Some(self.word(place)?);
                }
            }
        }
        // The return address is always saved: the outermost function's is unknown.
        let is_told = !matches!(rules.registers[RETURN_ADDRESS], Rule::Same | Rule::Unknown);
        let is_interrupted = rules.is_signal;
        is_told.then_some(Self { registers, is_interrupted, readable: self.readable })
    }

    fn place(&mut self, place: Place) -> Option<usize> {
        let value = (*self.registers.get(usize::from(place.register))?)?;
        let value = at(value, place.offset);
        if place.is_loaded { self.word(value) } else { Some(value) }
    }

    /// Returns the word of the stack at `address`.
    fn word(&mut self, address: usize) -> Option<usize> {
        let word = ptr::with_exposed_provenance_mut::<usize>(address);
        let page = address & !(os::page_size() - 1);
        if !word.is_aligned() || (page != self.readable && !os::is_readable(word.cast())) {
            return None;
        }
        self.readable = page;
        // SAFETY: the word is aligned, in a page that can be read. It may be changed meanwhile.
        Some(unsafe { word.read_volatile() })
    }
}

/// Returns the address `offset` bytes from `base`.
fn at(base: usize, offset: i32) -> usize {
    base.wrapping_add_signed(offset as isize)
}

/// A register and an offset, or the word there.
#[derive(Clone, Copy)]
struct Place {
    register: u8,
    offset: i32,
    is_loaded: bool,
}

impl Place {
    fn at(register: u8, offset: i32) -> Self {
        Self { register, offset, is_loaded: false }
    }
}

/// Where the caller's value of a register is.
#[derive(Clone, Copy)]
enum Rule {
    Same,
    Unknown,
    /// In the word at an offset from the frame's base.
    Saved(i32),
    /// It is the frame's base plus an offset.
    Is(i32),
    SavedAt(Place),
}

/// The caller's registers, as unwind data tells them for one instruction.
#[derive(Clone, Copy)]
struct Rules {
    /// The frame's base, the canonical frame address (CFA): the caller's stack pointer.
    base: Place,
    registers: [Rule; REGISTERS],
    is_signal: bool,
}

impl Rules {
    /// Returns the rules at `offset` bytes into the function of the frame description entry.
    ///
    /// # Safety
    /// `entry` is one of a loaded file's, and so is the common entry that it refers to.
    unsafe fn read(entry: NonNull<u8>, offset: usize) -> Option<Self> {
        // SAFETY: both entries begin with their length; the second word of the first tells how far
        // before it the common entry begins.
        unsafe {
            let mut entry = Reader::of(entry)?;
            let back = entry.at;
            let distance = entry.fixed::<4>()?;
            let mut common = Reader::of(NonNull::new(back.wrapping_sub(distance).cast_mut())?)?;
            let common = Common::read(&mut common)?;
            entry.skip(2 * common.address_len)?;
            if common.has_lengths {
                let len = entry.unsigned()?;
                entry.skip(len)?;
            }
            let mut rules = Self {
                base: Place::at(STACK_POINTER as u8, 0),
                registers: [Rule::Same; REGISTERS],
                is_signal: common.is_signal,
            };
            let mut first = Reader { ..common.instructions };
            rules.execute(&mut first, &common, None, usize::MAX)?;
            let initial = rules;
            rules.execute(&mut entry, &common, Some(&initial), offset)?;
            Some(rules)
        }
    }

    /// Executes instructions up to the place `offset` bytes into the function.
    ///
    /// # Safety
    /// The reader is at instructions of a loaded file.
    unsafe fn execute(
        &mut self,
        code: &mut Reader,
        common: &Common,
        initial: Option<&Self>,
        offset: usize,
    ) -> Option<()> {
        /// Sets of rules that are put aside at once: compilers put one aside.
        const KEPT: usize = 2;
        let mut kept = [*self; KEPT];
        let mut depth = 0;
        let mut at = 0_usize;
        while code.at < code.end && at <= offset {
            // SAFETY: the reader is at instructions, as the caller promises.
            unsafe {
                let instruction = code.byte()?;
                let low = instruction & 0x3f;
                let mut advance = |units: usize| at = at.wrapping_add(units * common.code_unit);
                match instruction {
                    0x40..=0x7f => advance(usize::from(low)),
                    0x02 => advance(code.fixed::<1>()?),
                    0x03 => advance(code.fixed::<2>()?),
                    0x04 => advance(code.fixed::<4>()?),
                    0x80..=0xbf => self.save(usize::from(low), code.offset()?, common),
                    0xc0..=0xff => self.restore(usize::from(low), initial?),
                    0x06 => self.restore(code.unsigned()?, initial?),
                    0x0a => {
                        *kept.get_mut(depth)? = *self;
                        depth += 1;
                    }
                    0x0b => {
                        depth = depth.checked_sub(1)?;
                        *self = kept[depth];
                    }
                    _ => self.execute_rule(instruction, code, common)?,
                }
            }
        }
        Some(())
    }

    /// Executes an instruction that sets one rule.
    ///
    /// # Safety
    /// The reader is behind that instruction of a loaded file.
    unsafe fn execute_rule(
        &mut self,
        instruction: u8,
        code: &mut Reader,
        common: &Common,
    ) -> Option<()> {
        // SAFETY: the reader is at instructions, as the caller promises.
        unsafe {
            match instruction {
                0x00 => {}
                0x05 => self.save(code.unsigned()?, code.offset()?, common),
                0x07 => self.set(code.unsigned()?, Rule::Unknown),
                0x08 => self.set(code.unsigned()?, Rule::Same),
                0x09 => {
                    self.set(code.unsigned()?, Rule::Unknown);
                    code.unsigned()?;
                }
                0x0c => self.base = Place::at(code.register()?, code.offset()?),
                0x0d => self.base.register = code.register()?,
                0x0e => self.base.offset = code.offset()?,
                0x0f => self.base = code.expression()?,
                0x10 => self.set(code.unsigned()?, Rule::SavedAt(code.expression()?)),
                0x11 => self.save(code.unsigned()?, code.signed()?, common),
                0x12 => self.base = Place::at(code.register()?, common.scaled(code.signed()?)),
                0x13 => self.base.offset = common.scaled(code.signed()?),
                0x14 => self.set(code.unsigned()?, Rule::Is(common.scaled(code.offset()?))),
                0x15 => self.set(code.unsigned()?, Rule::Is(common.scaled(code.signed()?))),
                // The bytes of arguments that are pushed, which only landing pads need.
                0x2e => _ = code.unsigned()?,
                _ => return None,
            }
        }
        Some(())
    }

    fn save(&mut self, register: usize, offset: i32, common: &Common) {
        self.set(register, Rule::Saved(common.scaled(offset)));
    }

    fn restore(&mut self, register: usize, initial: &Self) {
        if let Some(&rule) = initial.registers.get(register) {
            self.set(register, rule);
        }
    }

    /// Sets the rule of a register; those of vectors are not needed.
    fn set(&mut self, register: usize, rule: Rule) {
        if let Some(place) = self.registers.get_mut(register) {
            *place = rule;
        }
    }
}

/// What a common information entry says of the entries that refer to it.
struct Common {
    code_unit: usize,
    data_unit: i32,
    /// The bytes of an address in those entries.
    address_len: usize,
    /// Whether those entries tell the length of their additional data.
    has_lengths: bool,
    is_signal: bool,
    instructions: Reader,
}

impl Common {
    /// Returns the offset that unwind data tells in units.
    fn scaled(&self, units: i32) -> i32 {
        units.wrapping_mul(self.data_unit)
    }

    /// # Safety
    /// The reader is behind the length of a loaded file's common entry.
    unsafe fn read(entry: &mut Reader) -> Option<Self> {
        // SAFETY: the reader checks its end.
        unsafe {
            entry.skip(4)?;
            let version = entry.fixed::<1>()?;
            let mut kinds = [0_u8; 8];
            let mut len = 0;
            loop {
                match entry.byte()? {
                    0 => break,
                    kind => *kinds.get_mut(len)? = kind,
                }
                len += 1;
            }
            let code_unit = entry.unsigned()?;
            let data_unit = entry.signed()?;
            let return_address =
                if version == 1 { entry.fixed::<1>()? } else { entry.unsigned()? };
            if !matches!(version, 1 | 3) || return_address != RETURN_ADDRESS {
                return None;
            }
            let has_lengths = kinds[0] == b'z';
            let (mut address_len, mut is_signal) = (size_of::<usize>(), false);
            if has_lengths {
                let len = entry.unsigned()?;
                let mut data = Reader { at: entry.at, end: entry.at.wrapping_add(len) };
                entry.skip(len)?;
                for kind in kinds[1..].iter().take_while(|&&kind| kind != 0) {
                    match kind {
                        b'R' => address_len = encoded_len(data.byte()?)?,
                        b'P' => {
                            let len = encoded_len(data.byte()?)?;
                            data.skip(len)?;
                        }
                        b'L' => data.skip(1)?,
                        b'S' => is_signal = true,
                        _ => return None,
                    }
                }
            } else if kinds[0] != 0 {
                return None;
            }
            let instructions = Reader { at: entry.at, end: entry.end };
            Some(Self { code_unit, data_unit, address_len, has_lengths, is_signal, instructions })
        }
    }
}

/// Returns the bytes that an address of this encoding (`DW_EH_PE`) takes.
fn encoded_len(encoding: u8) -> Option<usize> {
    match encoding & 0xf {
        0x0 | 0x4 | 0xc => Some(8),
        0x2 | 0xa => Some(2),
        0x3 | 0xb => Some(4),
        _ => None,
    }
}

/// Reads unwind data.
struct Reader {
    at: *const u8,
    end: *const u8,
}

impl Reader {
    /// Returns a reader of what follows an entry's length.
    ///
    /// # Safety
    /// An entry of a loaded file begins there.
    unsafe fn of(entry: NonNull<u8>) -> Option<Self> {
        /// Lengths from here on announce one of eight bytes.
        const LONG: usize = 0xffff_fff0;
        let at = entry.as_ptr().cast_const();
        let mut reader = Self { at, end: at.wrapping_add(4) };
        // SAFETY: the length is there.
        let len = unsafe { reader.fixed::<4>() }?;
        reader.end = reader.at.wrapping_add(len);
        (len < LONG).then_some(reader)
    }

    fn skip(&mut self, len: usize) -> Option<()> {
        let is_within = len <= self.end.addr().saturating_sub(self.at.addr());
        is_within.then(|| self.at = self.at.wrapping_add(len))
    }

    /// Reads an unsigned number of `LEN` bytes.
    ///
    /// # Safety
    /// The bytes up to the reader's end are a loaded file's.
    unsafe fn fixed<const LEN: usize>(&mut self) -> Option<usize> {
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

    /// # Safety
    /// As [`fixed`](Self::fixed).
    unsafe fn unsigned(&mut self) -> Option<usize> {
        // SAFETY: as the caller promises.
        unsafe { self.bits() }.map(|(value, _)| value)
    }

    /// # Safety
    /// As [`fixed`](Self::fixed).
    unsafe fn signed(&mut self) -> Option<i32> {
        // SAFETY: as the caller promises.
        let (value, bits) = unsafe { self.bits() }?;
        let unused = usize::BITS.saturating_sub(bits);
        i32::try_from((value << unused).cast_signed() >> unused).ok()
    }

    /// Reads an offset that is told as an unsigned number.
    ///
    /// # Safety
    /// As [`fixed`](Self::fixed).
    unsafe fn offset(&mut self) -> Option<i32> {
        // SAFETY: as the caller promises.
        i32::try_from(unsafe { self.unsigned() }?).ok()
    }

    /// Reads the number of a register that a place may be told by.
    ///
    /// # Safety
    /// As [`fixed`](Self::fixed).
    unsafe fn register(&mut self) -> Option<u8> {
        // SAFETY: as the caller promises.
        u8::try_from(unsafe { self.unsigned() }?).ok()
    }

    /// # Safety
    /// As [`fixed`](Self::fixed).
    unsafe fn byte(&mut self) -> Option<u8> {
        // SAFETY: as the caller promises.
        unsafe { self.fixed::<1>() }.map(|byte| byte as u8)
    }

    /// Reads an expression of the kind that glibc's signal frames have: a register and an offset,
    /// and perhaps the word there.
    ///
    /// # Safety
    /// As [`fixed`](Self::fixed).
    unsafe fn expression(&mut self) -> Option<Place> {
        /// The operations `DW_OP_breg0` and `DW_OP_deref`.
        const REGISTER: u8 = 0x70;
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
            (is_known && code.at == code.end).then_some(Place { register, offset, is_loaded })
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
