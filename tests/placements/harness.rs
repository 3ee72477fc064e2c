//! The part of the properties' harness that the compositions need.

#[derive(Clone, Copy)]
pub(crate) enum Bookkeeping {
    Apart,
    InBand,
}
