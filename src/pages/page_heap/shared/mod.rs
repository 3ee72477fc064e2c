//! Methods of the heap that only the global allocator uses.

// `batch`: many blocks at once. `by_address`: blocks whose layout is not known. `free_walk`: free
// memory, a little at a time. `figures`: statistics for each class. `runs`: adjacent blocks too
// large for pages.
mod batch;
mod by_address;
mod figures;
mod free_walk;
mod runs;

pub(crate) use self::free_walk::FreeKind;
