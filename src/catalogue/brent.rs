//! Brent's ten strategies (1984 §2).

use crate::pages::Paged;
use crate::pages::placement::{
    AnyPage, AtRandom, Bump, Chain, CurrentPage, Least, LeftHeaders, Most, MostRecent,
};

family! {
    "brent", "Brent 1984", "pages";

    "STACK", "Brent §2.1",
    "one stack of free blocks for each size class",
    [apart compared] (paged Stack) {
        pub type Stack<S, M = ()> = Paged<Chain<false>, S, M>;
    }

    "QUEUE", "Brent §2.2",
    "one queue of free blocks for each size class",
    [apart compared] (paged Queue) {
        pub type Queue<S, M = ()> = Paged<Chain<true>, S, M>;
    }

    "RANDOM", "Brent §2.3",
    "any free block of the size class, at random",
    [apart compared] (paged Random) {
        pub type Random<S, M = ()> = Paged<AtRandom, S, M>;
    }

    "NOFREE", "Brent §2.4",
    "freed blocks are never used again",
    [apart compared not_reused] (paged NoFree) {
        pub type NoFree<S, M = ()> = Paged<Bump<false>, S, M>;
    }

    "QUICK", "Brent §2.5",
    "a page is used again once all its blocks are free",
    [apart compared not_reused] (paged Quick) {
        pub type Quick<S, M = ()> = Paged<Bump<true>, S, M>;
    }

    "FIRST-FIT", "Brent §2.6, his reference 5",
    "each block at the lowest possible address, found through segments",
    [apart compared] (|config, source, meter| {
        let growth = config.page_size.max(64 * config.unit);
        FirstFit::new(config.unit, growth, source, meter)
    }) { pub use crate::segments::FirstFit; }

    "RANDOM(B)", "Brent §2.8",
    "from the current page; the next one at random among pages with free blocks",
    [apart compared] (paged RandomB) {
        pub type RandomB<S, M = ()> = Paged<CurrentPage<AnyPage>, S, M>;
    }

    "MOST-FREE", "Brent §2.9, §4",
    "from the current page; the next one is the page with the most free blocks",
    [apart compared] (paged MostFree) {
        /// ```
        /// use core::alloc::Layout;
        /// use pagewise::catalogue::MostFree;
        /// use pagewise::pages::Config;
        /// use pagewise::{Reserved, Strategy};
        ///
        /// let config = Config::with_page_size(4096);
        /// let mut heap = MostFree::new(config, Reserved::new(1 << 30), ());
        /// let block = heap.allocate(Layout::new::<[u64; 5]>())?;
        /// assert_eq!(block.len(), 48, "no header: 40 bytes, rounded up to a size class");
        /// # Ok::<(), pagewise::AllocError>(())
        /// ```
        pub type MostFree<S, M = ()> = Paged<CurrentPage<LeftHeaders<Most>>, S, M>;
    }

    "LEAST-FREE", "Brent §2.10, §4",
    "from the current page; the next one is the page with the fewest free blocks, but at least φ0",
    [apart compared] (paged LeastFree) {
        pub type LeastFree<S, M = ()> = Paged<CurrentPage<LeftHeaders<Least>>, S, M>;
    }

    "MRU", "Brent §2.11, §4",
    "from the current page; the next one is the page freed into most recently",
    [apart compared] (paged Mru) {
        pub type Mru<S, M = ()> = Paged<CurrentPage<LeftHeaders<MostRecent>>, S, M>;
    }
}
