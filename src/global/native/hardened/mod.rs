//! Hardened mode: every call checks its block. The other parts of
//! [`Hardening`](crate::global::Hardening) are optional.
//!
//! ```text
//!  a thread's memory        | lists: blocks | face: zeros                | own: random state, quarantine |
//!                             ▲ taken here    ▲ what the thread points at   ▲ behind the face
//! ```
//! The default mode pays nothing for this. There a thread's pointer leads to its lists, and it pops
//! and pushes in a few instructions. In hardened mode the pointer leads to the *face* instead:
//! dummy lists, on which every pop and push fails. So every call takes the slow path, which first
//! asks whether the mode [is on](crate::global::native::base::mode::is_hardened).
//!
//! | file | |
//! |---|---|
//! | `states` | which blocks are in use: a byte for each 16 bytes |
//! | `canary` | the words written around a block |
//! | `release` | freed blocks on their way back |
//! | `own` | each thread's random numbers and quarantine |
//! | `paths` | allocating and freeing |
//! | `wiped` | small blocks that are zeros while free |
//! | `resize` | resizing and measuring |

/// Returns a table of a function, compiled for each
/// [set](crate::global::native::base::mode::Parts::of_set) of parts, which is its const parameter:
/// so no part is tested at run time.
macro_rules! for_each_set {
    ($function:ident) => {
        const {
            [
                $function::<0>,
                $function::<1>,
                $function::<2>,
                $function::<3>,
                $function::<4>,
                $function::<5>,
                $function::<6>,
                $function::<7>,
            ]
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
