//! A heap as a sequence of [`Span`]s in address order, and the checks of it.
//!
//! Every strategy describes the memory that it holds by [`Strategy::walk`]. [`check`] checks what
//! must be true of every such description.

use crate::error::Fault;
pub use crate::strategy::{Span, SpanKind};
use crate::strategy::{Strategy, Usage};

/// Walks a strategy's heap and checks the invariants of every heap:
/// - Spans are in address order, disjoint and not empty.
/// - Their lengths add up to the bytes held.
/// - The number of blocks in use and their bytes are those of the [`Usage`].
/// - The bytes requested do not exceed those of the blocks.
/// - The blocks in use are the allocations less the frees.
///
/// # Errors
/// The first invariant found violated.
pub fn check<S: Strategy + ?Sized>(strategy: &S) -> Result<(), Fault> {
    let mut end = 0;
    let mut seen = Usage::default();
    let mut fault = Ok(());
    strategy.walk(&mut |span| {
        if fault.is_ok() {
            fault = Fault::unless(span.len > 0, "a span has bytes", span.start).and_then(|()| {
                let ordered = span.start >= end && span.start.checked_add(span.len).is_some();
                Fault::unless(ordered, "spans are in address order and disjoint", span.start)
            });
        }
        if fault.is_ok() {
            end = span.end();
            seen.held = seen.held.saturating_add(span.len);
            if span.kind == SpanKind::Block {
                seen.blocks += 1;
                seen.block = seen.block.saturating_add(span.len);
            }
        }
    });
    fault?;
    let usage = strategy.usage();
    Fault::unless(seen.held == usage.held, "the spans add up to the bytes held", end)?;
    Fault::unless(seen.blocks == usage.blocks, "the walk meets every block in use", end)?;
    Fault::unless(seen.block == usage.block, "the blocks in use add up to usage", end)?;
    Fault::unless(usage.requested <= usage.block, "a block is as long as its request", end)?;
    let balance = usage.allocations.checked_sub(usage.frees) == Some(usage.blocks as u64);
    Fault::unless(balance, "allocations less frees are the blocks in use", end)
}

/// Checks that all bookkeeping is apart from the blocks, above the last page (Brent §4). This holds
/// for every strategy that stores its headers outside the pages.
///
/// # Errors
/// The first header, if a span that is no header follows it.
pub fn check_apart<S: Strategy + ?Sized>(strategy: &S) -> Result<(), Fault> {
    let mut first_header = None;
    let mut fault = Ok(());
    strategy.walk(&mut |span| match (span.kind, first_header) {
        (SpanKind::Header, None) => first_header = Some(span.start),
        (SpanKind::Header, Some(_)) | (_, None) => {}
        (_, Some(address)) => {
            fault = Err(Fault { invariant: "bookkeeping lies apart from the blocks", address });
        }
    });
    fault
}
