//! Hardened mode: every block is checked, at every call, and the parts of
//! [`Hardening`](crate::global::Hardening) besides.
//!
//! ```text
//!  a thread's memory        | lists: blocks | face: zeros                | own: random state, quarantine |
//!                             ▲ taken here    ▲ what the thread points at   ▲ behind the face
//! ```
//! Nothing of this costs the usual mode anything: there a thread points at its lists, and pops and pushes
//! in a few instructions. In hardened mode it points at the *face*, lists that are empty and full for ever,
//! so that every call takes the slow path, whose first question is whether the mode
//! [is on](super::mode::is_hardened).
//!
//! | file | |
//! |---|---|
//! | `states` | which blocks are in use: a byte for each 16 bytes |
//! | `canary` | what is written around a block |
//! | `release` | freed blocks on their way back |
//! | `own` | what a thread has besides lists: random numbers, the quarantine |
//! | `paths` | allocating and freeing |
//! | `wiped` | short blocks that are zeros while they are free |
//! | `resize` | resizing and measuring |

/// Calls a function with the parts in force, the first argument here, as its parameter: it is compiled for the checks alone
/// and for every part by themselves, in which nothing is asked, and once for all other sets.
macro_rules! with_parts {
    ($parts:expr, $function:ident($($argument:expr),+)) => {
        match $parts.of_small() {
            Parts::CHECKS => $function::<{ Parts::CHECKS }>($($argument),+),
            Parts::EVERY => $function::<{ Parts::EVERY }>($($argument),+),
            _ => $function::<{ Parts::UNKNOWN }>($($argument),+),
        }
    };
}

mod canary;
pub(super) mod own;
pub(super) mod paths;
mod release;
pub(super) mod resize;
mod states;
pub(super) mod wiped;
