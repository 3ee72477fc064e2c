//! The rules of unwind data that tell a caller's registers.

use core::ptr::NonNull;

use self::instruction::*;
use super::reader::{Location, REGISTERS, RETURN_ADDRESS, Reader, STACK_POINTER};

/// The instructions of unwind data, by their names in the standard less `DW_CFA_`. The first three
/// hold a number in their lower six bits.
mod instruction {
    pub(super) const ADVANCE_LOC: u8 = 0x40;
    pub(super) const OFFSET: u8 = 0x80;
    pub(super) const RESTORE: u8 = 0xc0;
    pub(super) const NOP: u8 = 0x00;
    pub(super) const ADVANCE_LOC1: u8 = 0x02;
    pub(super) const ADVANCE_LOC2: u8 = 0x03;
    pub(super) const ADVANCE_LOC4: u8 = 0x04;
    pub(super) const OFFSET_EXTENDED: u8 = 0x05;
    pub(super) const RESTORE_EXTENDED: u8 = 0x06;
    pub(super) const UNDEFINED: u8 = 0x07;
    pub(super) const SAME_VALUE: u8 = 0x08;
    pub(super) const REGISTER: u8 = 0x09;
    pub(super) const REMEMBER_STATE: u8 = 0x0a;
    pub(super) const RESTORE_STATE: u8 = 0x0b;
    pub(super) const DEF_CFA: u8 = 0x0c;
    pub(super) const DEF_CFA_REGISTER: u8 = 0x0d;
    pub(super) const DEF_CFA_OFFSET: u8 = 0x0e;
    pub(super) const DEF_CFA_EXPRESSION: u8 = 0x0f;
    pub(super) const EXPRESSION: u8 = 0x10;
    pub(super) const OFFSET_EXTENDED_SF: u8 = 0x11;
    pub(super) const DEF_CFA_SF: u8 = 0x12;
    pub(super) const DEF_CFA_OFFSET_SF: u8 = 0x13;
    pub(super) const VAL_OFFSET: u8 = 0x14;
    pub(super) const VAL_OFFSET_SF: u8 = 0x15;
    pub(super) const GNU_ARGS_SIZE: u8 = 0x2e;
}

/// Where the caller's value of a register is.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// It is the same as the callee's.
    Same,
    /// It cannot be told.
    Unknown,
    /// In the word at an offset from the canonical frame address.
    Saved(i32),
    /// It is the canonical frame address plus an offset.
    Is(i32),
    /// In the word at a location.
    SavedAt(Location),
}

/// The caller's registers, as unwind data tells them for one instruction.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// The canonical frame address (CFA): the caller's stack pointer.
    pub(super) cfa: Location,
    /// A rule for each register.
    pub(super) registers: [Rule; REGISTERS],
    /// Whether the function is the one that a signal's handler returns to.
    pub(super) is_signal: bool,
}

impl Rules {
    /// Returns the rules at `offset` bytes into the function of the frame description entry.
    ///
    /// # Safety
    /// `entry` is one of a loaded file's, and so is the common entry that it refers to.
    pub(super) unsafe fn read(entry: NonNull<u8>, offset: usize) -> Option<Self> {
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
                cfa: Location::at(STACK_POINTER as u8, 0),
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
                    ADVANCE_LOC..OFFSET => advance(usize::from(low)),
                    ADVANCE_LOC1 => advance(code.fixed::<1>()?),
                    ADVANCE_LOC2 => advance(code.fixed::<2>()?),
                    ADVANCE_LOC4 => advance(code.fixed::<4>()?),
                    OFFSET..RESTORE => self.save(usize::from(low), code.offset()?, common),
                    RESTORE.. => self.restore(usize::from(low), initial?),
                    RESTORE_EXTENDED => self.restore(code.unsigned()?, initial?),
                    REMEMBER_STATE => {
                        *kept.get_mut(depth)? = *self;
                        depth += 1;
                    }
                    RESTORE_STATE => {
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
                NOP => {}
                OFFSET_EXTENDED => self.save(code.unsigned()?, code.offset()?, common),
                UNDEFINED => self.set(code.unsigned()?, Rule::Unknown),
                SAME_VALUE => self.set(code.unsigned()?, Rule::Same),
                REGISTER => {
                    self.set(code.unsigned()?, Rule::Unknown);
                    code.unsigned()?;
                }
                DEF_CFA => self.cfa = Location::at(code.register()?, code.offset()?),
                DEF_CFA_REGISTER => self.cfa.register = code.register()?,
                DEF_CFA_OFFSET => self.cfa.offset = code.offset()?,
                DEF_CFA_EXPRESSION => self.cfa = code.expression()?,
                EXPRESSION => self.set(code.unsigned()?, Rule::SavedAt(code.expression()?)),
                OFFSET_EXTENDED_SF => self.save(code.unsigned()?, code.signed()?, common),
                DEF_CFA_SF => {
                    self.cfa = Location::at(code.register()?, common.scaled(code.signed()?))
                }
                DEF_CFA_OFFSET_SF => self.cfa.offset = common.scaled(code.signed()?),
                VAL_OFFSET => self.set(code.unsigned()?, Rule::Is(common.scaled(code.offset()?))),
                VAL_OFFSET_SF => {
                    self.set(code.unsigned()?, Rule::Is(common.scaled(code.signed()?)))
                }
                // The bytes of arguments that are pushed, which only landing pads need.
                GNU_ARGS_SIZE => _ = code.unsigned()?,
                _ => return None,
            }
        }
        Some(())
    }

    /// Records that a register is saved `offset` units from the canonical frame address.
    fn save(&mut self, register: usize, offset: i32, common: &Common) {
        self.set(register, Rule::Saved(common.scaled(offset)));
    }

    /// Sets a register's rule as it was at the function's start.
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
    /// The code alignment factor: bytes of a unit of code.
    code_unit: usize,
    /// The data alignment factor: bytes of a unit of stack.
    data_unit: i32,
    /// The bytes of an address in those entries.
    address_len: usize,
    /// Whether those entries tell the length of their additional data.
    has_lengths: bool,
    /// Whether those entries are of functions that signal handlers return to.
    is_signal: bool,
    /// The instructions that those entries begin with.
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
