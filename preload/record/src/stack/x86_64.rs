//! A step of the walk, by the rules of the unwind tables.
//!
//! A *rule* tells, for an address in a function, where its frame ends (the canonical frame address,
//! CFA): at a distance from `rsp` or `rbp`; the return address lies below it, and the caller's `rbp`
//! at another distance, if it was saved. Rules are found in a table by address. An entry is two
//! words, one of them combined with the other, so that one torn by another thread matches nothing.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use pagewise_trace::raw::Outermost;

use super::readable::Readable;
use super::rules::{self, Cfa, Rbp, Rule};
use crate::caller::Caller;

/// A call on the stack.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// Where the return address lies; the frame of the function that was called ends behind it.
    pub(super) at: u64,
    /// The return address.
    pub(super) address: u64,
    /// The caller's `rbp`.
    rbp: u64,
    /// How far below `at` it was saved; 0: it is as it was.
    saved: u32,
    by: By,
}

/// What of the frame before tells where this one lies, beside its address and where it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// More than is kept, or it is the first.
    More = 0,
    /// `rbp`.
    Rbp,
    Nothing,
}

/// Why there is no further frame.
pub(super) struct End {
    pub(super) outermost: Outermost,
    /// Whether it depends on the last frame's address alone, and on no word of the stack.
    pub(super) by_rule: bool,
}

struct Entry {
    /// Address and generation, combined with `rule`.
    key: AtomicU64,
    rule: AtomicU64,
}

const ENTRIES: usize = 1 << 14;
static CACHE: [Entry; ENTRIES] =
    [const { Entry { key: AtomicU64::new(0), rule: AtomicU64::new(0) } }; ENTRIES];

/// The rule of an address.
#[inline]
fn rule(address: u64, generation: u64) -> Rule {
    let entry = &CACHE[(address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize % ENTRIES];
    // Addresses of programs have 47 bits.
    let key = address ^ generation << 47;
    let known = entry.rule.load(Relaxed);
    if entry.key.load(Relaxed) ^ known == key {
        return Rule::unpack(known);
    }
    let rule = rules::find(address);
    let packed = rule.pack();
    entry.rule.store(packed, Relaxed);
    entry.key.store(key ^ packed, Relaxed);
    rule
}

impl Frame {
    /// A frame of zeros.
    pub(super) const ZERO: Self = Self { at: 0, address: 0, rbp: 0, saved: 0, by: By::More };

    /// The call of the function that noted its caller.
    #[inline]
    pub(super) fn first(caller: &Caller, readable: &mut Readable) -> Option<Self> {
        let address = readable.word(caller.stack)?;
        Some(Self { at: caller.stack, address, rbp: caller.rbp, ..Self::ZERO })
    }

    /// The next frame: the call of the function that this frame's address lies in.
    #[inline]
    pub(super) fn next(&self, generation: u64, readable: &mut Readable) -> Result<Self, End> {
        const FIRST: End = End { outermost: Outermost::First, by_rule: true };
        const LOST: End = End { outermost: Outermost::Lost, by_rule: true };
        let (rsp, rbp) = (self.at + 8, self.rbp);
        // The call lies before the address it returns to, which may be another function's.
        let rule = rule(self.address.wrapping_sub(1), generation);
        let lost = End { by_rule: false, ..LOST };
        let (cfa, mut by) = match rule.cfa {
            Cfa::End => return Err(FIRST),
            Cfa::Unknown => return Err(LOST),
            Cfa::Rsp(offset) => (rsp.wrapping_add_signed(offset.into()), By::Nothing),
            Cfa::Rbp(offset) => (rbp.wrapping_add_signed(offset.into()), By::Rbp),
            Cfa::AtRbp(offset) => match readable.word(rbp.wrapping_add_signed(offset.into())) {
                Some(cfa) => (cfa, By::More),
                None => return Err(lost),
            },
        };
        // Frames lie one behind the other.
        if cfa <= rsp {
            return Err(lost);
        }
        let at = cfa - 8;
        let Some(address) = readable.word(at) else { return Err(lost) };
        let saved = match rule.rbp {
            Rbp::Same => None,
            Rbp::AtCfa(offset) => Some(cfa.wrapping_add_signed(offset.into())),
            Rbp::AtOwn(offset) => {
                by = if by == By::Nothing { By::Rbp } else { by };
                Some(rbp.wrapping_add_signed(offset.into()))
            }
        };
        let (mut below, mut callers) = (0, rbp);
        if let Some(saved) = saved {
            let Some(word) = readable.word(saved) else { return Err(lost) };
            callers = word;
            // Between the two return addresses: elsewhere it is not kept.
            match at.checked_sub(saved) {
                Some(distance) if saved > self.at && distance > 0 => below = distance as u32,
                _ => by = By::More,
            }
        }
        if address == 0 {
            return Err(End { by_rule: false, ..FIRST });
        }
        Ok(Self { at, address, rbp: callers, saved: below, by })
    }

    /// Whether it is the same call as another one, whatever `rbp` was.
    #[inline]
    pub(super) fn is(&self, other: &Self) -> bool {
        self.at == other.at && self.address == other.address
    }

    /// Takes over what the same call has now; gives what `rbp` was and is.
    #[inline]
    pub(super) fn renew(&mut self, now: &Self) -> (u64, u64) {
        let was = self.rbp;
        *self = *now;
        (was, now.rbp)
    }

    /// Whether the frame, which was the next one of one that is as it was, but for `rbp`, still is: then it
    /// lies where it lay, so its words need to be compared and nothing else. `rbp` is what that one's was and
    /// is, and then this one's.
    ///
    /// # Safety
    /// The stack can be read from the frame before up to this one.
    #[inline]
    pub(super) unsafe fn still_holds(&mut self, rbp: &mut (u64, u64)) -> bool {
        let lies_there = match self.by {
            By::Nothing => true,
            By::Rbp => rbp.0 == rbp.1,
            By::More => false,
        };
        // SAFETY: the caller's promise; `at` is aligned, or nothing would have been read there.
        if !lies_there || unsafe { word(self.at) } != self.address {
            return false;
        }
        let now = match u64::from(self.saved) {
            0 => rbp.1,
            // SAFETY: the caller's promise; it lies between the two, and is aligned as well.
            below => unsafe { word(self.at - below) },
        };
        *rbp = (core::mem::replace(&mut self.rbp, now), now);
        true
    }
}

/// # Safety
/// The address is that of a word that can be read.
#[inline]
unsafe fn word(address: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::with_exposed_provenance::<u64>(address as usize).read_volatile() }
}
