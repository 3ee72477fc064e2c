//! How policies are kept to this crate.
//!
//! A *policy trait* is what an engine asks of a policy, as `IndexPolicy` of an index. It is `pub` in a
//! private module, and so is every type that its methods name: nobody else can name or implement it. A
//! public trait without methods stands before it where programs have a use for the name, as a bound; its
//! page lists the policies.
//!
//! ```text
//! mod index {
//!     pub trait Index: IndexPolicy {}
//!     pub trait IndexPolicy { … }
//! }
//! pub use index::Index;
//! ```

/// Implemented by this crate's policies alone: a public trait that asks for it can be named, but not
/// implemented, elsewhere.
pub trait Sealed {}
