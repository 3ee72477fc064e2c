//! The gate to a thread's own data. Its owner passes without an atomic read-modify-write operation
//! or a full barrier; while a visitor from another thread is inside, the owner stays out.
//!
//! ```text
//!  owner                                   visitor
//!   outside ← 0                             state ← state | VISITED
//!   light barrier: compiler only            heavy barrier: the owner passes a full one
//!   state = BIASED? then it is in           outside = 1? then the owner is out, and stays out
//! ```
//! The heavy barrier takes effect at one point of the owner's program. If that is after the owner's
//! store to `outside`, the visitor sees the store; if before, the owner sees VISITED. So at least
//! one of them turns back, and neither waits. (To be sure of seeing the other's store, a thread
//! must pass a full barrier or an atomic read-modify-write: Attiya et al. 2011, *Laws of order*.
//! Here the visitor pays for both.) If the system has no such barrier, the gate is not biased, and
//! the owner passes a full one of its own.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::sync::{self, AtomicU32, fence};

/// The owner passes without a full barrier. Only the owner sets and clears this bit.
const BIASED: u32 = 1;
/// A visitor is inside, or is checking whether the owner is out.
const VISITED: u32 = 2;
/// A visitor could not have the heavy barrier, and asks the owner to clear `BIASED`.
const REFUSED: u32 = 4;

/// A gate. All zeros is a valid value: a gate that has no owner, and that nobody enters.
#[derive(Debug)]
#[repr(C)]
pub(in crate::global::native) struct Gate {
    /// 1 if there is an owner and it is out; else 0. Only the owner writes this.
    outside: AtomicU32,
    /// Flags: [`BIASED`], [`VISITED`] and [`REFUSED`].
    state: AtomicU32,
}

impl Gate {
    /// Makes a gate whose owner is out.
    #[cfg(pagewise_model)]
    pub(in crate::global::native) fn new() -> Self {
        Self { outside: AtomicU32::new(1), state: AtomicU32::new(0) }
    }

    /// Makes the calling thread the owner.
    pub(in crate::global::native) fn set_owner(&self) {
        self.leave();
    }

    /// Lets the owner in if the gate is biased and has no visitor; returns whether it did. Writes
    /// nothing to a gate without an owner. Only for the owner, which must [leave](Self::leave) if
    /// it was let in.
    #[inline(always)]
    pub(in crate::global::native) fn enter_biased(&self) -> bool {
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

    /// Lets the owner in, unless a visitor is inside, or this is a signal handler that interrupted
    /// the owner inside; returns whether it did. Also sets or clears the bias. Only for the owner,
    /// which must [leave](Self::leave) if it was let in.
    pub(in crate::global::native) fn enter(&self) -> bool {
        self.enter_where(sync::has_barriers)
    }

    /// As [`enter`](Self::enter); `has_barriers` says whether threads can make others pass a
    /// barrier.
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

    /// Notes that the owner is out again.
    #[inline(always)]
    pub(in crate::global::native) fn leave(&self) {
        self.outside.store(1, Release);
    }

    /// Makes the owner turn back from now on; `false` if another visitor is inside. A visitor that
    /// gets `true` must [open](Self::open) the gate again.
    pub(in crate::global::native) fn shut(&self) -> bool {
        self.state.fetch_or(VISITED, Acquire) & VISITED == 0
    }

    /// Returns whether the owner is out of a gate that the caller has [shut](Self::shut), and so
    /// stays out. `passed`: the result of the [heavy barrier](sync::heavy_barrier) that the caller
    /// has tried since.
    pub(in crate::global::native) fn is_owner_out(&self, passed: bool) -> bool {
        if !passed && self.state.load(Relaxed) & BIASED != 0 {
            self.state.fetch_or(REFUSED, Relaxed);
            return false;
        }
        self.outside.load(Acquire) == 1
    }

    /// Lets the owner in again: the visitor is out.
    pub(in crate::global::native) fn open(&self) {
        self.state.fetch_and(!VISITED, Release);
    }

    /// In the child of a fork: forgets a visitor that stayed behind; returns whether there was one.
    /// If not, this writes nothing.
    pub(in crate::global::native) fn forget_visitor(&self) -> bool {
        let is_visited = self.state.load(Relaxed) & VISITED != 0;
        if is_visited {
            self.open();
        }
        is_visited
    }

    /// In the child of a fork: forgets an owner, and a visitor, that stayed behind.
    pub(in crate::global::native) fn forget_owner(&self) {
        self.leave();
        self.open();
    }
}

#[cfg(all(test, not(pagewise_model)))]
mod tests {
    use super::*;

    /// Iterates over all combinations of `outside`, every state, and whether there are barriers.
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

    /// Without a full barrier, the owner gets in only if the gate is biased, and no visitor is
    /// inside or wants the bias dropped.
    #[test]
    fn the_owner_passes_a_biased_gate() {
        for (outside, state, _) in all() {
            let gate = gate(outside, state);
            let is_in = gate.enter_biased();
            assert_eq!(is_in, outside == 1 && state == BIASED);
            assert_eq!(found(gate), (if is_in { 0 } else { outside }, state));
        }
    }

    /// The owner gets in unless a visitor is inside, and biases the gate exactly when there are
    /// barriers.
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

    /// Without a barrier, a visitor cannot know where the owner of a biased gate is, and asks it to
    /// drop the bias.
    #[test]
    fn a_visitor_knows_where_the_owner_is() {
        for (outside, state, passed) in all() {
            let gate = gate(outside, state);
            let knows = passed || state & BIASED == 0;
            assert_eq!(gate.is_owner_out(passed), knows && outside == 1);
            assert_eq!(found(gate), (outside, if knows { state } else { state | REFUSED }));
        }
    }

    /// There is one visitor at a time.
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

    /// In the child of a fork the gate is open; and the owner is out, if it stayed behind.
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
            fresh.set_owner();
            assert_eq!(found(fresh), (1, state));
        }
    }
}
