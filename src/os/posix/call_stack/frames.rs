//! A walk along a thread's stack that survives garbage, on x86-64 Linux with glibc.
//!
//! The system's unwinder trusts what it finds. At a return address without unwind data it reads the
//! instructions there, to see whether they return from a signal handler. So it faults where a
//! return address is stale: in a program that switches stacks by copying them (greenlets), or that
//! unmaps code which it compiled. This walk ends there instead. It reads the same unwind data (the
//! DWARF 5 standard, section 6.4, with the extensions of the Linux Standard Base, `.eh_frame`),
//! which the unwinder finds, and checks every page of the stack before it reads it.

use core::ptr::{self, NonNull};

use self::reader::{Location, REGISTERS, RETURN_ADDRESS, STACK_POINTER};
use self::rules::{Rule, Rules};
use crate::os;

mod reader;
mod rules;

/// What `_Unwind_Find_FDE` tells besides the entry: addresses that its data may be relative to, and
/// where the function begins.
#[repr(C)]
struct Bases([*const u8; 2], *const u8);

// `std` links the unwinder itself, wherever it is from.
#[cfg_attr(not(feature = "std"), link(name = "gcc_s"))]
unsafe extern "C" {
    /// Returns the frame description entry of the function that has this address; null if none is
    /// known. Writes `bases` if there is one.
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
    readable: Option<usize>,
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
        Self { registers, is_interrupted: true, readable: None }
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
        let cfa = self.address_of(rules.cfa)?;
        // Only a signal may have changed to a stack at lower addresses.
        if cfa <= stack && !rules.is_signal {
            return None;
        }
        let mut registers = self.registers;
        registers[STACK_POINTER] = Some(cfa);
        for (register, &rule) in registers.iter_mut().zip(&rules.registers) {
            match rule {
                Rule::Same => {}
                Rule::Unknown => *register = None,
                Rule::Saved(offset) => {
                    *register = Some(self.word(at(cfa, offset))?);
                }
                Rule::Is(offset) => *register = Some(at(cfa, offset)),
                Rule::SavedAt(location) => {
                    let address = self.address_of(location)?;
                    *register = Some(self.word(address)?);
                }
            }
        }
        // The return address is always saved: the outermost function's is unknown.
        let is_told = !matches!(rules.registers[RETURN_ADDRESS], Rule::Same | Rule::Unknown);
        let is_interrupted = rules.is_signal;
        is_told.then_some(Self { registers, is_interrupted, readable: self.readable })
    }

    /// Returns the address that a location tells, if what it depends on is known.
    fn address_of(&mut self, location: Location) -> Option<usize> {
        let value = (*self.registers.get(usize::from(location.register))?)?;
        let value = at(value, location.offset);
        if location.is_loaded { self.word(value) } else { Some(value) }
    }

    /// Returns the word of the stack at `address`.
    fn word(&mut self, address: usize) -> Option<usize> {
        let word = ptr::with_exposed_provenance_mut::<usize>(address);
        let page = address & !(os::page_size() - 1);
        let is_known = self.readable == Some(page);
        if !word.is_aligned() || (!is_known && !os::is_readable(word.cast())) {
            return None;
        }
        self.readable = Some(page);
        // SAFETY: the word is aligned, in a page that can be read. It may be changed meanwhile.
        Some(unsafe { word.read_volatile() })
    }
}

/// Returns the address `offset` bytes from `base`.
fn at(base: usize, offset: i32) -> usize {
    base.wrapping_add_signed(offset as isize)
}

#[cfg(all(test, not(miri)))]
mod tests;
