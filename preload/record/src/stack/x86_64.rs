//! One step of the walk, by the rules of the unwind tables.
//!
//! For an address in a function, a *rule* says where the function's frame ends (the canonical frame
//! address, CFA) as a distance from `rsp` or `rbp`. The return address is just below the CFA; the
//! caller's `rbp`, if it was saved, is at another distance. A hash table caches the rules by
//! address. An entry is two words, one of them XORed with the other, so a torn entry, half-written
//! by another thread, matches no address.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use pagewise_trace::raw::Outermost;

use super::readable::Readable;
use super::rules::{self, Cfa, Rbp, Rule};
use crate::caller::Caller;

/// A call on the stack.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// The address of the return address; the called function's frame ends behind it.
    pub(super) at: u64,
    /// The return address.
    pub(super) address: u64,
    /// The caller's `rbp`.
    rbp: u64,
    /// The distance below `at` at which it was saved; 0 if it is unchanged.
    saved: u32,
    by: By,
}

/// The inputs that determine where this frame is, besides the address and the end of the frame
/// before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// More than is kept, or this is the first frame.
    More = 0,
    /// Also `rbp`.
    Rbp,
    Nothing,
}

/// The reason why there is no further frame.
pub(super) struct End {
    pub(super) outermost: Outermost,
    /// Whether that follows from the last frame's address alone, not from words on the stack.
    pub(super) by_rule: bool,
}

struct Entry {
    /// Address and generation, XORed with `rule`.
    key: AtomicU64,
    rule: AtomicU64,
}

const ENTRIES: usize = 1 << 14;
static CACHE: [Entry; ENTRIES] =
    [const { Entry { key: AtomicU64::new(0), rule: AtomicU64::new(0) } }; ENTRIES];

/// Returns the rule of an address, from the cache if it is there.
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

    /// Returns the call of the exported function whose caller was recorded.
    #[inline]
    pub(super) fn first(caller: &Caller, readable: &mut Readable) -> Option<Self> {
        let address = readable.word(caller.stack)?;
        Some(Self { at: caller.stack, address, rbp: caller.rbp, ..Self::ZERO })
    }

    /// Returns the next frame: the call of the function that this frame's address is in.
    #[inline]
    pub(super) fn next(&self, generation: u64, readable: &mut Readable) -> Result<Self, End> {
        const FIRST: End = End { outermost: Outermost::First, by_rule: true };
        const LOST: End = End { outermost: Outermost::Lost, by_rule: true };
        let (rsp, rbp) = (self.at + 8, self.rbp);
        // The call instruction is in front of its return address, which may belong to another
        // function already.
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
        // Each frame must be above the one before.
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
            // The distance is kept only if the word is between the two return addresses.
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

    /// Returns whether both frames are the same call, whatever `rbp` was.
    #[inline]
    pub(super) fn is(&self, other: &Self) -> bool {
        self.at == other.at && self.address == other.address
    }

    /// Takes over the current values of the same call; returns the old and the new `rbp`.
    #[inline]
    pub(super) fn renew(&mut self, now: &Self) -> (u64, u64) {
        let was = self.rbp;
        *self = *now;
        (was, now.rbp)
    }

    /// Returns whether a kept frame is still on the stack, if the frame before it is unchanged
    /// except for its `rbp`. If so, this frame's position is unchanged, and only its words need to
    /// be compared. On entry, `rbp` has the old and the new value for the frame before; on success
    /// it is set to those for this frame.
    ///
    /// # Safety
    /// The stack is readable from the frame before up to this one.
    #[inline]
    pub(super) unsafe fn still_holds(&mut self, rbp: &mut (u64, u64)) -> bool {
        let lies_there = match self.by {
            By::Nothing => true,
            By::Rbp => rbp.0 == rbp.1,
            By::More => false,
        };
        // SAFETY: the caller guarantees that the word is readable; `at` is aligned, since only
        // aligned words are read into frames.
        if !lies_there || unsafe { word(self.at) } != self.address {
            return false;
        }
        let now = match u64::from(self.saved) {
            0 => rbp.1,
            // SAFETY: the caller guarantees that the stack is readable there: the word is between
            // the two frames, and aligned.
            below => unsafe { word(self.at - below) },
        };
        *rbp = (core::mem::replace(&mut self.rbp, now), now);
        true
    }
}

/// # Safety
/// `address` is that of an aligned, readable word.
#[inline]
unsafe fn word(address: u64) -> u64 {
    // SAFETY: the caller guarantees that the word is readable.
    unsafe { core::ptr::with_exposed_provenance::<u64>(address as usize).read_volatile() }
}
