//! Finds the rule of an address in its file's unwind table, and packs it into a word.

use core::mem::{MaybeUninit, size_of};

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, NativeEndian, Reader, Register, RegisterRule,
    UnwindContext, UnwindContextStorage, UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};

use super::loaded::{self, Tables};
use super::try_lock::TryLock;

type Slice = gimli::EndianSlice<'static, NativeEndian>;

/// Where a frame ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cfa {
    /// No table contains it.
    Unknown,
    Rsp(i32),
    Rbp(i32),
    /// In the word at this distance from `rbp`.
    AtRbp(i32),
    /// This is the outermost frame.
    End,
}

/// Where the caller's `rbp` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rbp {
    Same,
    AtCfa(i32),
    AtOwn(i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) cfa: Cfa,
    pub(super) rbp: Rbp,
}

impl Rule {
    const UNKNOWN: Self = Self { cfa: Cfa::Unknown, rbp: Rbp::Same };
    const END: Self = Self { cfa: Cfa::End, rbp: Rbp::Same };
    /// The number of bits of a packed distance.
    const OFFSET: u32 = 28;

    /// Packs the rule into a word that is never 0.
    pub(super) fn pack(self) -> u64 {
        let field = |offset: i32| {
            let shift = i32::BITS - Self::OFFSET;
            (offset << shift >> shift == offset)
                .then(|| u64::from((offset << shift) as u32 >> shift))
        };
        let (kind, cfa) = match self.cfa {
            Cfa::Unknown => (1, 0),
            Cfa::Rsp(offset) => (2, offset),
            Cfa::Rbp(offset) => (3, offset),
            Cfa::AtRbp(offset) => (4, offset),
            Cfa::End => (5, 0),
        };
        let (saved, rbp) = match self.rbp {
            Rbp::Same => (0, 0),
            Rbp::AtCfa(offset) => (1, offset),
            Rbp::AtOwn(offset) => (2, offset),
        };
        match (field(cfa), field(rbp)) {
            (Some(cfa), Some(rbp)) => kind | saved << 4 | cfa << 8 | rbp << 36,
            _ => 1,
        }
    }

    #[inline]
    pub(super) fn unpack(word: u64) -> Self {
        let shift = i32::BITS - Self::OFFSET;
        let offset = |from: u32| ((word >> from) as i32) << shift >> shift;
        let cfa = match word & 7 {
            2 => Cfa::Rsp(offset(8)),
            3 => Cfa::Rbp(offset(8)),
            4 => Cfa::AtRbp(offset(8)),
            5 => Cfa::End,
            _ => Cfa::Unknown,
        };
        let rbp = match word >> 4 & 3 {
            1 => Rbp::AtCfa(offset(36)),
            2 => Rbp::AtOwn(offset(36)),
            _ => Rbp::Same,
        };
        Self { cfa, rbp }
    }
}

/// Space for evaluating a table, as large as a small stack.
struct Room;

type Context = UnwindContext<usize, Room>;

/// Contexts for evaluating tables. They are not on the stack, which may be that of a signal handler,
/// of 8 KiB (`SIGSTKSZ`).
static CONTEXTS: [TryLock<MaybeUninit<Context>>; 8] =
    [const { TryLock::new(MaybeUninit::uninit()) }; 8];

impl UnwindContextStorage<usize> for Room {
    type Rules = [(Register, RegisterRule<usize>); 20];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

/// Finds the rule of an address in the unwind tables.
#[cold]
pub(super) fn find(address: u64) -> Rule {
    let mut rule = Rule::UNKNOWN;
    loaded::tables(address, |tables| {
        let found = match CONTEXTS.iter().find_map(TryLock::try_lock) {
            Some(mut context) => evaluate(address, tables, prepare(&mut context)),
            None => evaluate_on_stack(address, tables),
        };
        rule = found.unwrap_or(Rule::UNKNOWN);
    });
    rule
}

/// Makes a context. A call of its own, since the compiler may make it on the stack and move it.
#[inline(never)]
fn prepare(context: &mut MaybeUninit<Context>) -> &mut Context {
    context.write(UnwindContext::new_in())
}

#[inline(never)]
fn evaluate_on_stack(address: u64, tables: &Tables) -> Option<Rule> {
    evaluate(address, tables, &mut UnwindContext::new_in())
}

#[inline(never)]
fn evaluate(address: u64, tables: &Tables, context: &mut Context) -> Option<Rule> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(tables.hdr);
    let hdr = EhFrameHdr::new(slice(tables.hdr, tables.end)?, NativeEndian);
    let hdr = hdr.parse(&bases, size_of::<usize>() as u8).ok()?;
    let start = hdr.eh_frame_ptr().direct().ok()?;
    // The table of frames may be in front of its index.
    let bases = bases.set_eh_frame(start);
    let frames =
        EhFrame::new(slice(start, tables.end).filter(|_| start >= tables.start)?, NativeEndian);
    let row = hdr.table()?.unwind_info_for_address(
        &frames,
        &bases,
        context,
        address,
        EhFrame::cie_from_offset,
    );
    let row = row.ok()?;
    match row.register(X86_64::RA) {
        RegisterRule::Undefined => return Some(Rule::END),
        RegisterRule::Offset(-8) => {}
        _ => return None,
    }
    let expression =
        |expression: &UnwindExpression<usize>| expression.get(&frames).ok().map(|stored| stored.0);
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            let offset = i32::try_from(*offset).ok()?;
            match *register {
                X86_64::RSP => Cfa::Rsp(offset),
                X86_64::RBP => Cfa::Rbp(offset),
                _ => return None,
            }
        }
        CfaRule::Expression(stored) => Cfa::AtRbp(at_rbp(expression(stored)?, true)?),
    };
    let rbp = match row.register(X86_64::RBP) {
        RegisterRule::Undefined | RegisterRule::SameValue => Rbp::Same,
        RegisterRule::Offset(offset) => Rbp::AtCfa(i32::try_from(offset).ok()?),
        RegisterRule::Expression(stored) => Rbp::AtOwn(at_rbp(expression(&stored)?, false)?),
        _ => return None,
    };
    Some(Rule { cfa, rbp })
}

/// Returns the distance from `rbp` in an expression of the one form that compilers generate, when
/// they align a stack frame: `DW_OP_breg6 (rbp) distance`, followed by `DW_OP_deref` if `deref`,
/// that is, if the value is the word there.
fn at_rbp(mut expression: Slice, deref: bool) -> Option<i32> {
    const BREG6: u8 = 0x76;
    const DEREF: u8 = 0x06;
    let found = expression.read_u8().ok()? == BREG6;
    let offset = expression.read_sleb128().ok()?;
    let dereferenced = if deref { expression.read_u8().ok()? == DEREF } else { true };
    (found && dereferenced && expression.is_empty()).then(|| i32::try_from(offset).ok())?
}

/// Returns the memory of a loaded file from `start` to `end`.
fn slice(start: u64, end: u64) -> Option<&'static [u8]> {
    let len = end.checked_sub(start).filter(|_| start != 0)?;
    let start = core::ptr::with_exposed_provenance::<u8>(start as usize);
    // SAFETY: `Tables` are within one readable segment of a loaded file. The file stays loaded
    // while one of its functions is on this thread's stack.
    Some(unsafe { core::slice::from_raw_parts(start, len as usize) })
}
