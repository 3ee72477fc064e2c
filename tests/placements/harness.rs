//! Properties that the compositions declare about themselves.

#[derive(Clone, Copy)]
pub(crate) enum Bookkeeping {
    Apart,
    InBand,
}
