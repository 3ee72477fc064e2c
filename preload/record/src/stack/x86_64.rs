//! The walk by the rules of the unwind tables.
//!
//! A *rule* tells, for an address in a function, where its frame ends (the canonical frame address,
//! CFA): at a distance from `rsp` or `rbp`; the return address lies below it, and the caller's `rbp`
//! at another distance, if it was saved. Rules are found in a table by address. An entry is two
//! words, one of them combined with the other, so that one torn by another thread matches nothing.

use core::arch::asm;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use pagewise_trace::raw::Outermost;

use super::readable::Readable;
use super::rules::{self, Cfa, Rbp, Rule};

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

/// Passes the return addresses of the calling thread to `each`, the innermost first, until it says
/// no.
#[inline(always)]
pub(super) fn walk(generation: u64, mut each: impl FnMut(u64) -> bool) -> Outermost {
    let (mut address, mut rsp, mut rbp): (u64, u64, u64);
    // SAFETY: reads three registers.
    unsafe {
        asm!(
            "lea {address}, [rip]", "mov {rsp}, rsp", "mov {rbp}, rbp",
            address = out(reg) address, rsp = out(reg) rsp, rbp = out(reg) rbp,
            options(nomem, nostack, preserves_flags),
        );
    }
    let mut readable = Readable::at(rsp);
    loop {
        let rule = rule(address, generation);
        let cfa = match rule.cfa {
            Cfa::End => return Outermost::First,
            Cfa::Unknown => return Outermost::Lost,
            Cfa::Rsp(offset) => rsp.wrapping_add_signed(offset.into()),
            Cfa::Rbp(offset) => rbp.wrapping_add_signed(offset.into()),
            Cfa::AtRbp(offset) => match readable.word(rbp.wrapping_add_signed(offset.into())) {
                Some(cfa) => cfa,
                None => return Outermost::Lost,
            },
        };
        // Frames lie one behind the other.
        if cfa <= rsp {
            return Outermost::Lost;
        }
        let Some(caller) = readable.word(cfa - 8) else { return Outermost::Lost };
        let saved = match rule.rbp {
            Rbp::Same => Some(rbp),
            Rbp::AtCfa(offset) => readable.word(cfa.wrapping_add_signed(offset.into())),
            Rbp::AtOwn(offset) => readable.word(rbp.wrapping_add_signed(offset.into())),
        };
        let Some(saved) = saved else { return Outermost::Lost };
        if caller == 0 {
            return Outermost::First;
        }
        if !each(caller) {
            return Outermost::Cut;
        }
        // The call lies before the address it returns to, which may be another function's.
        (address, rsp, rbp) = (caller - 1, cfa, saved);
    }
}
