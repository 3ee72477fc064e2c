//! What the compositions say of themselves, for the properties' sake.

#[derive(Clone, Copy)]
pub(crate) enum Bookkeeping {
    Apart,
    InBand,
}
