//! The gate to what belongs to a thread: its owner passes without an atomic operation that others see at once, and a visitor
//! from another thread keeps the owner out meanwhile.
//!
//! ```text
//!  owner                                   visitor
//!   outside ← 0                             state ← state | VISITED
//!   light barrier: none for the processor   heavy barrier: the owner, wherever it is, passes a full one
//!   state = BIASED? then it is in           outside = 1? then the owner is out, and stays out
//! ```
//! The heavy barrier falls into one place of the owner's program. Behind the owner's store to `outside`, the visitor sees
//! that; before it, the owner sees VISITED. So at least one of them turns back, and neither waits. (Whoever must see the
//! other's store passes a full barrier, or an exchange: Attiya et al. 2011, *Laws of order*. Here the visitor passes it for
//! both.) Where the system has no such barrier, the gate is not biased, and the owner passes a full one of its own.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::sync::{self, AtomicU32, fence};

/// The owner passes no full barrier. The owner alone sets and clears this.
const BIASED: u32 = 1;
/// A visitor is there, or looks whether the owner is out.
const VISITED: u32 = 2;
/// The owner is asked to clear `BIASED`: the heavy barrier could not be had.
const REFUSED: u32 = 4;

/// A gate. All zeros is a value: a gate that has no owner, and that nobody enters.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Gate {
    /// Whether there is an owner, who is not behind it. The owner alone writes this.
    outside: AtomicU32,
    state: AtomicU32,
}

impl Gate {
    /// A gate that nobody passed.
    #[cfg(pagewise_model)]
    pub(super) fn new() -> Self {
        Self { outside: AtomicU32::new(1), state: AtomicU32::new(0) }
    }

    /// The calling thread is the owner from now on.
    pub(super) fn own(&self) {
        self.leave();
    }

    /// Lets the owner in if the gate is biased, and it would be let in by [`enter`](Self::enter). To a gate without an owner
    /// nothing is written.
    #[inline(always)]
    pub(super) fn enter_biased(&self) -> bool {
        if self.outside.load(Relaxed) == 0 {
            return false;
        }
        self.outside.store(0, Relaxed);
        sync::light_barrier();
        let is_in = self.state.load(Acquire) == BIASED;
        if !is_in {
            self.leave();
        }
        is_in
    }

    /// Lets the owner in, unless a visitor is there, or this is a signal's handler that interrupted the owner inside. To be
    /// called by the owner, who [leaves](Self::leave) if it was let in.
    pub(super) fn enter(&self) -> bool {
        self.enter_where(sync::has_barriers)
    }

    /// As [`enter`](Self::enter), where one thread can have the others pass a barrier, or cannot.
    fn enter_where(&self, has_barriers: impl FnOnce() -> bool) -> bool {
        if self.outside.load(Relaxed) == 0 {
            return false;
        }
        self.outside.store(0, Relaxed);
        match (self.state.load(Relaxed) & BIASED != 0, has_barriers()) {
            (true, false) => {
                self.state.fetch_and(!(BIASED | REFUSED), Relaxed);
            }
            (false, true) => {
                self.state.fetch_or(BIASED, Relaxed);
            }
            _ => {}
        }
        fence(SeqCst);
        let is_in = self.state.load(Acquire) & VISITED == 0;
        if !is_in {
            self.leave();
        }
        is_in
    }

    /// The owner is out again.
    #[inline(always)]
    pub(super) fn leave(&self) {
        self.outside.store(1, Release);
    }

    /// Has the owner turn back from now on; `false` if another visitor is there. Whoever gets `true` [opens](Self::open) the
    /// gate again.
    pub(super) fn shut(&self) -> bool {
        self.state.fetch_or(VISITED, Acquire) & VISITED == 0
    }

    /// Whether the owner is out of a gate that was [shut](Self::shut), and stays out. `passed` says whether a
    /// [heavy barrier](sync::heavy_barrier), which was tried since, could be had.
    pub(super) fn is_left(&self, passed: bool) -> bool {
        if !passed && self.state.load(Relaxed) & BIASED != 0 {
            self.state.fetch_or(REFUSED, Relaxed);
            return false;
        }
        self.outside.load(Acquire) == 1
    }

    /// The visitor is out.
    pub(super) fn open(&self) {
        self.state.fetch_and(!VISITED, Release);
    }

    /// In the child of a fork: whoever visited stayed behind.
    pub(super) fn forget_visitor(&self) {
        self.open();
    }

    /// In the child of a fork: the owner stayed behind, too.
    pub(super) fn forget_owner(&self) {
        self.leave();
        self.open();
    }
}

#[cfg(all(test, not(pagewise_model)))]
mod tests {
    use super::*;

    /// What there may be: whether the owner is out, and every state; and whether the others pass barriers.
    fn all() -> impl Iterator<Item = (u32, u32, bool)> {
        let states = 0..2 * REFUSED;
        states
            .flat_map(|state| [0, 1].map(|out| (out, state)))
            .flat_map(|(outside, state)| [false, true].map(|barriers| (outside, state, barriers)))
    }

    fn gate(outside: u32, state: u32) -> Gate {
        Gate { outside: AtomicU32::new(outside), state: AtomicU32::new(state) }
    }

    fn found(gate: Gate) -> (u32, u32) {
        (gate.outside.into_inner(), gate.state.into_inner())
    }

    /// Without a full barrier, only through a gate that is biased, and that nobody visits, or wants to be so no more.
    #[test]
    fn the_owner_passes_a_biased_gate() {
        for (outside, state, _) in all() {
            let gate = gate(outside, state);
            let is_in = gate.enter_biased();
            assert_eq!(is_in, outside == 1 && state == BIASED);
            assert_eq!(found(gate), (if is_in { 0 } else { outside }, state));
        }
    }

    /// The owner gets in unless a visitor is there, and biases the gate where that is safe, and only there.
    #[test]
    fn the_owner_says_whether_a_gate_is_biased() {
        for (outside, state, barriers) in all() {
            let gate = gate(outside, state);
            let is_in = gate.enter_where(|| barriers);
            assert_eq!(is_in, outside == 1 && state & VISITED == 0);
            let after = match (outside, barriers) {
                (0, _) => state,
                (_, true) => state | BIASED,
                (_, false) if state & BIASED == 0 => state,
                (_, false) => state & VISITED,
            };
            assert_eq!(found(gate), (if is_in { 0 } else { outside }, after));
        }
    }

    /// Without a barrier, nothing is known of the owner of a biased gate, who is asked to bias it no more.
    #[test]
    fn a_visitor_knows_where_the_owner_is() {
        for (outside, state, passed) in all() {
            let gate = gate(outside, state);
            let knows = passed || state & BIASED == 0;
            assert_eq!(gate.is_left(passed), knows && outside == 1);
            assert_eq!(found(gate), (outside, if knows { state } else { state | REFUSED }));
        }
    }

    /// One visitor at a time.
    #[test]
    fn a_gate_is_shut_and_opened() {
        for (outside, state, _) in all() {
            let gate = gate(outside, state);
            assert_eq!(gate.shut(), state & VISITED == 0);
            assert!(!gate.shut() && !gate.enter_biased());
            gate.open();
            assert_eq!(found(gate), (outside, state & !VISITED));
        }
    }

    /// In the child of a fork the gate is open; and the owner is out, if that stayed behind.
    #[test]
    fn a_fork_leaves_nobody_inside() {
        for (outside, state, _) in all() {
            let visited = gate(outside, state);
            visited.forget_visitor();
            assert_eq!(found(visited), (outside, state & !VISITED));
            let owned = gate(outside, state);
            owned.forget_owner();
            assert_eq!(found(owned), (1, state & !VISITED));
            let fresh = gate(outside, state);
            fresh.own();
            assert_eq!(found(fresh), (1, state));
        }
    }
}
