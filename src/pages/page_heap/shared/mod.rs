//! What the global allocator alone asks of the heap.

// `batch`: many blocks at once. `by_address`: blocks whose layout nobody knows. `free_walk`: free memory, a little at a
// time. `figures`: what there is of each class.
mod batch;
mod by_address;
mod figures;
mod free_walk;

pub(crate) use self::free_walk::FreeKind;
