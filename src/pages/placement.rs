//! The placements: which page, and which block of it, serves a request of a class.
//!
//! | strategy | placement | Brent |
//! |---|---|---|
//! | STACK, QUEUE | [`Chain`] | §2.1, §2.2 |
//! | RANDOM | [`AtRandom`] | §2.3 |
//! | NOFREE, QUICK | [`Bump`] | §2.4, §2.5 |
//! | RANDOM(B) | [`CurrentPage`]`<`[`AnyPage`]`>` | §2.8 |
//! | MOST-FREE, LEAST-FREE, MRU | [`CurrentPage`]`<`[`LeftHeaders`]`<…>>` | §2.9–2.11, §4 |
//! | PAGEWISE | [`Windowed`]: LEAST-FREE, lazily and by quarters | §2.10 |
//!
//! [`CurrentPage`] has a second parameter, how the free blocks within a page are kept: [`Bitmap`]
//! or [`InBand`]. It does not influence which pages are chosen.

#[cfg(feature = "strategies")]
pub use super::brent::{
    AnyPage, AtRandom, Bump, Chain, CurrentPage, Least, LeftHeaders, Most, MostRecent,
};
#[cfg(feature = "strategies")]
pub use super::headers::in_page::{Bitmap, InBand};
pub use super::page_heap::Windowed;
