//! The global allocator, where the system refuses the n-th call for memory, or all from the n-th on, for
//! every n of a session that uses everything: a request fails only if a call of its own was refused, no
//! block and no byte is lost, and once calls are answered again everything is served, and freed.
//!
//! Each n has a process of its own. The calls are those of C's library, which this program answers itself:
//! nothing in the allocator knows of it.
//! ```sh
//! cargo test --test nth_call            # every n but of purges, and every 16th of those
//! cargo test --test nth_call -- all     # two minutes of one core
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
