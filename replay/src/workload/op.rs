//! Operations on blocks, and batches of them.

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Allocate,
    Reallocate,
    Free,
}

/// One operation on a block. Only a [`Decoder`](super::decode::Decoder) makes it, and ensures that
/// - the block of `slot` is live for `Reallocate` and `Free`, and not for `Allocate`;
/// - `old` is the live block's size, at least 1;
/// - `new` and `old` with the alignment make valid layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Op {
    /// Size before, in bytes (`Reallocate`, `Free`).
    pub(super) old: usize,
    /// Size after, in bytes (`Allocate`, `Reallocate`).
    pub(super) new: usize,
    pub(super) slot: u32,
    /// Binary logarithm of the alignment in bytes.
    pub(super) align: u8,
    pub(super) kind: Kind,
}

/// Operations in the order in which a [`Decoder`](super::decode::Decoder) made them.
#[derive(Debug, Default)]
pub(super) struct Batch {
    ops: Vec<Op>,
    /// One more than the greatest slot in `ops`.
    slots: usize,
}

impl Batch {
    pub(super) fn push(&mut self, op: Op) {
        self.slots = self.slots.max(op.slot as usize + 1);
        self.ops.push(op);
    }

    pub(super) fn clear(&mut self) {
        self.ops.clear();
        self.slots = 0;
    }

    /// Returns one more than the greatest slot of these operations; 0 if there are none.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the operations.
    pub(super) fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Returns the number of operations.
    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }
}
