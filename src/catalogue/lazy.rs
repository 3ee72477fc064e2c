//! Lazy fits (Chung & Moon 2000), under the paper's abbreviations, with explicit frees. Those
//! marked (GC) are in the garbage-collected mode.

use crate::fit::{self, BoundaryTagHeap, Collected, Immediate};
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
use crate::fit::{Apart, Bounded, Joining, NoArea, Releasing};

/// Lazy first fit (Chung & Moon): LF, LFB or LFL if `A` is [`Apart`](fit::Apart),
/// [`Joining`](fit::Joining) or [`Releasing`](fit::Releasing); the conventional first fit F if it
/// is [`NoArea`](fit::NoArea).
///
/// Made by `new(growth, source, meter)`: the heap grows by multiples of `growth` bytes, 64 KiB for
/// example. [Which lazy fit?](crate::fit#which-lazy-fit) explains the choice.
///
/// ```
/// use core::alloc::Layout;
/// use pagewise::catalogue::LazyFirstFit;
/// use pagewise::fit::Releasing;
/// use pagewise::{Reserved, Strategy};
///
/// // LFL.
/// let mut heap = LazyFirstFit::<Releasing, _>::new(1 << 16, Reserved::new(1 << 30), ());
/// let layout = Layout::new::<[u64; 5]>();
/// let [one, two] = [heap.allocate(layout)?, heap.allocate(layout)?];
/// let distance = two.addr().get() - one.addr().get();
/// assert_eq!(distance, 48, "one bump by 40 bytes and a header, rounded up");
/// # Ok::<(), pagewise::AllocError>(())
/// ```
pub type LazyFirstFit<A, S, M = ()> = BoundaryTagHeap<fit::Segregated, Immediate, A, S, M>;

/// Lazy worst fit, made as [`LazyFirstFit`]: W, LW, LWB, LWL (Chung & Moon).
///
/// [Which lazy fit?](crate::fit#which-lazy-fit) explains the choice.
pub type LazyWorstFit<A, S, M = ()> = BoundaryTagHeap<fit::Worst, Immediate, A, S, M>;

/// Lazy best fit, made as [`LazyFirstFit`]: B, LB, LBB, LBL (Chung & Moon §3).
///
/// [Which lazy fit?](crate::fit#which-lazy-fit) explains the choice.
pub type LazyBestFit<A, S, M = ()> = BoundaryTagHeap<fit::Best, Immediate, A, S, M>;

/// Lazy first fit in address order, made as [`LazyFirstFit`]: the next area is the lowest free
/// block that is large enough (Chung & Moon §3, Figure 1).
pub type LazyLowestFit<A, S, M = ()> = BoundaryTagHeap<fit::First, Immediate, A, S, M>;

/// Lazy first fit in address order by pointer decrements: the area is a block of the free list and
/// stays there (Chung & Moon §3, footnote 1). Made as [`LazyFirstFit`]. See [`fit::Decrement`].
pub type LazyDecrement<S, M = ()> = BoundaryTagHeap<fit::Decrement, Immediate, fit::NoArea, S, M>;

/// [`LazyFirstFit`] in the garbage-collected mode: freed blocks wait until an allocation fails
/// (Chung & Moon §4.2). Made in the same way.
pub type CollectedFirstFit<A, S, M = ()> = BoundaryTagHeap<fit::Segregated, Collected, A, S, M>;

/// [`LazyWorstFit`] in the garbage-collected mode, made in the same way.
pub type CollectedWorstFit<A, S, M = ()> = BoundaryTagHeap<fit::Worst, Collected, A, S, M>;

/// [`LazyBestFit`] in the garbage-collected mode, made in the same way.
pub type CollectedBestFit<A, S, M = ()> = BoundaryTagHeap<fit::Best, Collected, A, S, M>;

/// An area so small that LFL fragments memory no more than F does.
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
type Bounded256 = Bounded<Releasing, 256>;

/// [`LazyDecrement`] with the parameters that the rows below expect. `A` is [`NoArea`]: the index
/// has its own area.
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
type Decremented<A, S, M> = BoundaryTagHeap<fit::Decrement, Immediate, A, S, M>;

/// Defines the family. Its types have one parameter more than other strategies: the area.
macro_rules! lazy {
    ($($name:literal, $paper:literal, $about:literal, $flags:tt
        $fit:ident<$area:ident>;)*) => {
        family! {
            "lazy", "Chung & Moon 2000", "fit";
            $($name, $paper, $about, $flags (|config, source, meter| {
                $fit::<$area, _, _>::new(config.page_size, source, meter)
            }) {})*
        }
    };
}

lazy! {
    "F", "Chung & Moon Table 1",
    "conventional segregated FIFO first fit: SEGREGATED-FIT",
    [linear] LazyFirstFit<NoArea>;

    "LF", "Chung & Moon Table 1",
    "lazy first fit: bumps a pointer in a free-space area; first fit finds the next area",
    [linear] LazyFirstFit<Apart>;

    "LFB", "Chung & Moon Table 1",
    "lazy first fit; blocks freed beside the area are joined with it",
    [linear] LazyFirstFit<Joining>;

    "LFL", "Chung & Moon Table 1",
    "lazy first fit; a block freed beside the area is joined with it, and both are free",
    [linear compared] LazyFirstFit<Releasing>;

    "LFL (BOUNDED)", "ours, after Chung & Moon",
    "LFL; the area is 256 bytes of a free block, so that large ones stay whole",
    [linear] LazyFirstFit<Bounded256>;

    "LF (ADDRESS)", "Chung & Moon §3, Fig. 1",
    "lazy first fit; the next area is the lowest free block that is large enough",
    [linear] LazyLowestFit<Apart>;

    "LFB (ADDRESS)", "Chung & Moon §3, Fig. 1",
    "LF (ADDRESS); blocks freed beside the area are joined with it",
    [linear] LazyLowestFit<Joining>;

    "LFL (ADDRESS)", "Chung & Moon §3, Fig. 1",
    "LF (ADDRESS); a block freed beside the area is joined with it, and both are free",
    [linear] LazyLowestFit<Releasing>;

    "LF (DECREMENT)", "Chung & Moon §3, footnote 1",
    "LF (ADDRESS) from the area's upper end by pointer decrements; the area stays on the free list",
    [linear] Decremented<NoArea>;

    "W", "Chung & Moon Table 1",
    "conventional worst fit: WORST-FIT",
    [] LazyWorstFit<NoArea>;

    "LW", "Chung & Moon Table 1",
    "lazy worst fit: bumps a pointer in a free-space area; worst fit finds the next area",
    [] LazyWorstFit<Apart>;

    "LWB", "Chung & Moon Table 1",
    "lazy worst fit; blocks freed beside the area are joined with it",
    [] LazyWorstFit<Joining>;

    "LWL", "Chung & Moon Table 1",
    "lazy worst fit; a block freed beside the area is joined with it, and both are free",
    [] LazyWorstFit<Releasing>;

    "B", "Chung & Moon §3",
    "conventional best fit: BEST-FIT",
    [] LazyBestFit<NoArea>;

    "LB", "Chung & Moon §3",
    "lazy best fit: bumps a pointer in a free-space area; best fit finds the next area",
    [] LazyBestFit<Apart>;

    "LBB", "Chung & Moon §3",
    "lazy best fit; blocks freed beside the area are joined with it",
    [] LazyBestFit<Joining>;

    "LBL", "Chung & Moon §3",
    "lazy best fit; a block freed beside the area is joined with it, and both are free",
    [] LazyBestFit<Releasing>;

    "F (GC)", "Chung & Moon §4.2",
    "first fit; frees wait until an allocation fails",
    [linear] CollectedFirstFit<NoArea>;

    "LF (GC)", "Chung & Moon §4.2",
    "lazy first fit; frees wait until an allocation fails",
    [linear] CollectedFirstFit<Apart>;

    "W (GC)", "Chung & Moon §4.2",
    "worst fit; frees wait until an allocation fails",
    [] CollectedWorstFit<NoArea>;

    "LW (GC)", "Chung & Moon §4.2",
    "lazy worst fit; frees wait until an allocation fails",
    [] CollectedWorstFit<Apart>;

    "B (GC)", "Chung & Moon §3, §4.2",
    "best fit; frees wait until an allocation fails",
    [] CollectedBestFit<NoArea>;

    "LB (GC)", "Chung & Moon §3, §4.2",
    "lazy best fit; frees wait until an allocation fails",
    [] CollectedBestFit<Apart>;
}
