//! The replay loop, which all replays of the lab use: timed, metered or audited.

use std::alloc::Layout;
use std::fmt;
use std::ptr::{self, NonNull};
use std::time::Duration;

use super::op::{Batch, Kind, Op};
use super::target::Target;
use crate::system::charged::processor_time;

/// Observes a replay, and uses the blocks as a program would. Omitted hooks compile to nothing.
pub trait Observer<T: ?Sized> {
    /// Called after a block was allocated.
    ///
    /// # Safety
    /// The block is live, has this layout and at least one byte, and nothing else uses it before
    /// the observer returns.
    #[inline(always)]
    unsafe fn allocated(&mut self, _block: NonNull<u8>, _layout: Layout) {}

    /// Called before a block is resized or freed.
    ///
    /// # Errors
    /// A description of a fault in the block; it ends the replay.
    ///
    /// # Safety
    /// As for [`allocated`](Self::allocated).
    #[inline(always)]
    unsafe fn leaving(&mut self, _block: NonNull<u8>, _layout: Layout) -> Result<(), String> {
        Ok(())
    }

    /// Called after a block of `old` bytes was resized to `layout`, and perhaps moved.
    ///
    /// # Errors
    /// As [`leaving`](Self::leaving).
    ///
    /// # Safety
    /// As for [`allocated`](Self::allocated).
    #[inline(always)]
    unsafe fn resized(
        &mut self,
        block: NonNull<u8>,
        _old: usize,
        layout: Layout,
    ) -> Result<(), String> {
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.allocated(block, layout) };
        Ok(())
    }

    /// Called after each operation.
    ///
    /// # Errors
    /// A description of a fault in the target; it ends the replay.
    #[inline(always)]
    fn done(&mut self, _target: &T) -> Result<(), String> {
        Ok(())
    }
}

/// The resources used by a whole replay.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Processor time spent in the loop, without decoding.
    pub elapsed: Duration,
}

/// Why a replay ended early.
#[derive(Debug)]
pub enum Stop {
    /// The target ran out of memory.
    Exhausted {
        /// Number of the operation, from 1.
        operation: u64,
        /// Bytes that it requested.
        bytes: usize,
    },
    /// The observer found a fault.
    Fault {
        /// Number of the operation before, from 1.
        operation: u64,
        /// The observer's description.
        fault: String,
    },
    /// The process that ran the replay was ended by a signal.
    Died {
        /// The signal's number.
        signal: i32,
        /// What the process had to say; may be empty.
        message: String,
    },
    /// The trace could not be read.
    Trace(anyhow::Error),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted { operation, bytes } => {
                write!(f, "out of memory at operation {operation} (a block of {bytes} bytes)")
            }
            Self::Fault { operation, fault } => write!(f, "operation {operation}: {fault}"),
            Self::Died { signal, message } => {
                write!(f, "the replay was ended by signal {signal}")?;
                if message.is_empty() { Ok(()) } else { write!(f, ": {message}") }
            }
            Self::Trace(error) => write!(f, "{error:#}"),
        }
    }
}

impl std::error::Error for Stop {}

/// The live blocks by slot, and the progress of the replay.
#[derive(Debug)]
pub(super) struct Table {
    blocks: Vec<*mut u8>,
    operations: u64,
    elapsed: Duration,
}

impl Table {
    /// Returns a table for the slots below `slots`.
    pub(super) fn new(slots: usize) -> Self {
        // Not null, so that the entries are written and their OS pages resident before the clock
        // starts.
        Self { blocks: vec![ptr::dangling_mut(); slots], operations: 0, elapsed: Duration::ZERO }
    }

    /// Replays the next operations of the trace for which this table was made.
    pub(super) fn drive<T: Target + ?Sized, O: Observer<T>>(
        &mut self,
        batch: &Batch,
        target: &mut T,
        observer: &mut O,
    ) -> Result<(), Stop> {
        assert!(batch.slots() <= self.blocks.len(), "the table is too short for the batch");
        let start = processor_time();
        let mut done = 0;
        let mut ended = Ok(());
        for op in batch.ops() {
            done += 1;
            let step = self.step(op, target, observer);
            if step.is_err() {
                ended = step;
                break;
            }
        }
        self.elapsed += processor_time().saturating_sub(start);
        self.operations += done;
        ended.map_err(|halt| match halt {
            Halt::Exhausted => Stop::Exhausted {
                operation: self.operations,
                bytes: batch.ops()[done as usize - 1].new,
            },
            Halt::Fault(fault) => Stop::Fault { operation: self.operations, fault },
        })
    }

    #[inline(always)]
    fn step<T: Target + ?Sized, O: Observer<T>>(
        &mut self,
        op: &Op,
        target: &mut T,
        observer: &mut O,
    ) -> Result<(), Halt> {
        let align = 1_usize << op.align;
        // SAFETY: `drive` checked that every slot of the batch is below the length of the table.
        let entry = unsafe { self.blocks.get_unchecked_mut(op.slot as usize) };
        // SAFETY: the decoder checked that both sizes make valid layouts.
        let (old, new) = unsafe {
            (
                Layout::from_size_align_unchecked(op.old, align),
                Layout::from_size_align_unchecked(op.new, align),
            )
        };
        match op.kind {
            Kind::Allocate => {
                let block = target.allocate(new).ok_or(Halt::Exhausted)?;
                // SAFETY: the target has just allocated it with this layout.
                unsafe { observer.allocated(block, new) };
                *entry = block.as_ptr();
            }
            Kind::Reallocate => {
                // SAFETY: the decoder checked that the slot's block is live.
                let block = unsafe { NonNull::new_unchecked(*entry) };
                // SAFETY: as above, and it has the layout `old`.
                unsafe { observer.leaving(block, old) }.map_err(Halt::Fault)?;
                // SAFETY: `block` is live, has the layout `old`, and is not used afterwards.
                let moved = unsafe { target.reallocate(block, old, new.size()) };
                let block = moved.ok_or(Halt::Exhausted)?;
                // SAFETY: the target has just resized it to this layout.
                unsafe { observer.resized(block, old.size(), new) }.map_err(Halt::Fault)?;
                *entry = block.as_ptr();
            }
            Kind::Free => {
                // SAFETY: as above.
                let block = unsafe { NonNull::new_unchecked(*entry) };
                // SAFETY: as above, and it has the layout `old`.
                unsafe { observer.leaving(block, old) }.map_err(Halt::Fault)?;
                // SAFETY: as above; the decoder lets no later operation use the block.
                unsafe { target.free(block, old) };
            }
        }
        observer.done(target).map_err(Halt::Fault)
    }

    pub(super) fn outcome(&self) -> Outcome {
        Outcome { elapsed: self.elapsed }
    }
}

/// Why a step was the last one.
enum Halt {
    Exhausted,
    Fault(String),
}
