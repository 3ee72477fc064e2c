//! Keeps the policy traits of this crate to this crate.

/// Implemented by this crate's policies alone: a public trait that asks for it can be named, but not
/// implemented, elsewhere.
pub trait Sealed {}
