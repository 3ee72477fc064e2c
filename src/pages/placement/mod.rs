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
//! How the free blocks within a page are kept is a second choice for [`CurrentPage`]: [`Bitmap`] or
//! [`InBand`]. Neither influences which pages are chosen.

#[cfg(feature = "strategies")]
mod any_page;
#[cfg(feature = "strategies")]
mod blocks;
#[cfg(feature = "strategies")]
mod bump;
#[cfg(feature = "strategies")]
mod current;
#[cfg(feature = "strategies")]
mod left;
#[cfg(feature = "strategies")]
mod pool;
#[cfg(feature = "strategies")]
mod random;
mod supply;
pub(super) mod windowed;

#[cfg(feature = "strategies")]
pub use self::any_page::AnyPage;
#[cfg(feature = "strategies")]
pub use self::bump::Bump;
#[cfg(feature = "strategies")]
pub use self::current::CurrentPage;
#[cfg(feature = "strategies")]
pub use self::left::{Least, LeftHeaders, Most, MostRecent};
#[cfg(feature = "strategies")]
pub use self::pool::{AtRandom, Chain};
pub use self::windowed::Windowed;
#[cfg(feature = "strategies")]
pub use super::headers::in_page::{Bitmap, InBand};
