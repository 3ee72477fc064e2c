//! Traces of allocations.
mod event;

pub use event::Event;
