//! Memory compaction (Nielsen 1977, Table III): when free neighbours are joined.

/// A way of compacting.
pub trait Compaction {
    /// A freed block is joined with its free neighbours, in a buddy system with its buddies.
    const ON_DEALLOCATION: bool = false;
    /// A search joins every free block it meets with those behind it.
    const ON_ALLOCATION: bool = false;
    /// A freed block is only marked, and put on no list.
    const LIMBO: bool = false;
    /// Collections made, one after the other, when no block is found.
    const COLLECTIONS: &'static [Collection] = &[];
}

/// A pass over all memory that makes the list of free blocks anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// From the free blocks without joining them.
    List,
    /// From free blocks joined with their neighbours.
    Join,
}

/// Allocation: neighbours are joined when a search comes to them.
#[derive(Debug)]
pub struct OnAllocation;

/// Deallocation: a block is joined with its neighbours, or buddies, when it is freed.
#[derive(Debug)]
pub struct OnDeallocation;

/// Garbage Collection: freed blocks go on their list unjoined; all neighbours are joined when no
/// block is large enough.
#[derive(Debug)]
pub struct GarbageCollection;

/// Limbo: freed blocks are marked and not put on a list; when none on it is large enough, all
/// neighbours are joined and the list is made anew.
#[derive(Debug)]
pub struct Limbo;

/// 2 Stage: like [`Limbo`], but the list is first made anew without joining.
#[derive(Debug)]
pub struct TwoStage;

/// Compaction, GC: [`OnDeallocation`] as far as it goes, and [`GarbageCollection`] for the rest.
#[derive(Debug)]
pub struct CompactionAndCollection;

macro_rules! compactions {
    ($($compaction:ident { $($constant:ident: $of:ty = $value:expr),* })*) => {$(
        impl Compaction for $compaction {
            $(const $constant: $of = $value;)*
        }
    )*};
}

compactions! {
    OnAllocation { ON_ALLOCATION: bool = true }
    OnDeallocation { ON_DEALLOCATION: bool = true }
    GarbageCollection { COLLECTIONS: &'static [Collection] = &[Collection::Join] }
    Limbo { LIMBO: bool = true, COLLECTIONS: &'static [Collection] = &[Collection::Join] }
    TwoStage {
        LIMBO: bool = true,
        COLLECTIONS: &'static [Collection] = &[Collection::List, Collection::Join]
    }
    CompactionAndCollection {
        ON_DEALLOCATION: bool = true,
        COLLECTIONS: &'static [Collection] = &[Collection::Join]
    }
}
