//! The programs of Brent's experiments (1984), reconstructed, and everything else that his tables
//! need. `docs/brent.md` gives the source of each part, and names the parts that are ours.
//!
//! Files in order of dependency: `memory` (a simulated program's blocks), `leftist` and `pqsim`
//! (§3.2), `userfault`, `pager` and `residency` (§2.12), `tridiag` (§3.1), `mixed`, `tagless` and
//! `resident` (§7), `adversary` (§6).

pub(crate) mod adversary;
pub(crate) mod leftist;
pub(crate) mod memory;
pub(crate) mod mixed;
pub(crate) mod pager;
pub(crate) mod pqsim;
pub(crate) mod residency;
pub(crate) mod resident;
pub(crate) mod tagless;
pub(crate) mod tridiag;
mod userfault;
