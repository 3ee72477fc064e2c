//! What makes one paged strategy differ from another: where a class's next block comes from.

use core::ptr::NonNull;

use super::in_page::InPage;
use super::pages::Pages;
use crate::engine::Backing;
use crate::error::{AllocError, Fault};
use crate::meter::Meter;
use crate::sealed::Sealed;
use crate::source::Source;
use crate::strategy::SpanKind;

/// Chooses the block that serves a request, and keeps what it needs to choose.
#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
pub trait Placement: Sealed {
    /// How the free blocks within a page are kept.
    #[doc(hidden)]
    type InPage: InPage;

    /// Nothing placed yet.
    #[doc(hidden)]
    const INITIAL: Self;

    /// The least block size in bytes it can work with.
    #[doc(hidden)]
    const LEAST_BLOCK: usize;

    /// What a free block in a page with blocks in use is: [`SpanKind::Slack`] where it cannot be
    /// allocated as things are.
    #[doc(hidden)]
    const UNUSED: SpanKind;

    /// Takes memory for the classes of `pages`. May be called again after an error.
    #[doc(hidden)]
    fn open<S: Source>(
        &mut self,
        seed: u64,
        pages: &Pages<Self::InPage>,
        source: &mut S,
    ) -> Result<(), AllocError>;

    /// Allocates a block of a class.
    #[doc(hidden)]
    fn allocate<S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<Self::InPage>,
        backing: &mut Backing<S, M>,
    ) -> Result<NonNull<u8>, AllocError>;

    /// Frees the block in use at this address, which lies in a page. Needs no memory.
    #[doc(hidden)]
    fn free<M: Meter>(&mut self, address: NonNull<u8>, pages: &mut Pages<Self::InPage>, meter: &M);

    /// Checks the placement's invariants; returns the number of pages it keeps, which with those
    /// of S2 must be all.
    #[doc(hidden)]
    fn audit(&self, pages: &Pages<Self::InPage>) -> Result<usize, Fault>;
}
