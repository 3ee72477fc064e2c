//! The global allocator when the system refuses the n-th call for memory, or all from the n-th on,
//! for every n of a session that uses everything. A request fails only if one of its own calls was
//! refused, no block and no byte is lost, and once calls succeed again, everything is served and
//! freed.
//!
//! Each n has its own process. This program defines the C library functions that the allocator
//! calls, so the allocator itself needs no test code.
//! ```sh
//! cargo test --test nth_call            # every n, but only every 16th call of a purge
//! cargo test --test nth_call -- all     # every n: two minutes of processor time
//! ```

#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod calls;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod every;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
#[path = "../frugal/mod.rs"]
mod frugal;
#[path = "../random/mod.rs"]
#[allow(dead_code, reason = "used where the allocator is")]
mod random;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod session;

fn main() {
    #[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
    every::run();
}
