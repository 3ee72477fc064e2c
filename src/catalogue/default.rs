//! The default strategy, composed of the best parts of the papers, and the strategy for small
//! machines.

family! {
    "default", "made of the papers' best", "pages";

    "PAGEWISE", "Brent §2.10, §4; Hasan & Chang §3.1, §3.9",
    "lazy LEAST-FREE for small blocks; pages and larger blocks from one good fit",
    [compared chosen of_arenas] (paged PageHeap) { pub use crate::pages::PageHeap; }

    "SMALL", "Knuth §2.5; Brent §4 (bookkeeping apart)",
    "good fit for regions of kilobytes; blocks without headers, told apart by one bit a word",
    [] (|_, source, meter| SmallHeap::new(source, meter)) { pub use crate::small::SmallHeap; }
}
