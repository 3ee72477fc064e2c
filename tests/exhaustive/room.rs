//! The memory of one exploration: a source over a few pages. Its state, and that of the strategy
//! over it, can be saved, restored and compared byte by byte.
//!
//! The source has no bytes of its own and the room does not move, so two strategies with equal
//! bytes, over rooms with equal bytes and bounds, behave the same from then on.

use std::alloc::Layout;
use std::cell::Cell;
use std::fs::File;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};

use pagewise::{AllocError, Source, Strategy};

/// The alignment of a room's first byte.
const ALIGN: usize = 1 << 16;

/// The source's state: offsets from `base`, as in [`Region`](pagewise::Region).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    base: *mut u8,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) low: usize,
    pub(crate) high: usize,
    opened: bool,
}

impl Bounds {
    const NONE: Self =
        Self { base: ptr::null_mut(), start: 0, end: 0, low: 0, high: 0, opened: false };

    pub(crate) fn current() -> Self {
        BOUNDS.get()
    }

    pub(crate) fn base(&self) -> usize {
        self.base.addr()
    }

    /// Returns the bytes not yet taken.
    pub(crate) fn left(&self) -> usize {
        self.low - self.end
    }

    pub(crate) fn at(&self, offset: usize) -> NonNull<u8> {
        NonNull::new(self.base.wrapping_add(offset)).expect("a room is not at address 0")
    }
}

thread_local! {
    static BOUNDS: Cell<Bounds> = const { Cell::new(Bounds::NONE) };
}

/// The source over this thread's room.
pub(crate) struct RoomSource;

// SAFETY: extent and dedicated memory are disjoint parts of the room, which is used by one strategy
// only and outlives it.
unsafe impl Source for RoomSource {
    fn extend(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, AllocError> {
        let mut bounds = BOUNDS.get();
        if !bounds.opened {
            assert!(align <= ALIGN, "the room starts at a multiple");
            bounds.opened = true;
        }
        if bytes > bounds.left() {
            return Err(AllocError::Exhausted);
        }
        let from = bounds.at(bounds.end);
        bounds.end += bytes;
        BOUNDS.set(bounds);
        Ok(from)
    }

    unsafe fn retract(&mut self, bytes: usize) {
        let mut bounds = BOUNDS.get();
        bounds.end -= bytes;
        BOUNDS.set(bounds);
    }

    fn dedicate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let mut bounds = BOUNDS.get();
        let low = bounds.low.checked_sub(layout.size()).ok_or(AllocError::Exhausted)?;
        bounds.low = low & !(layout.align() - 1);
        if bounds.low < bounds.end {
            return Err(AllocError::Exhausted);
        }
        BOUNDS.set(bounds);
        let memory = bounds.at(bounds.low);
        // SAFETY: the bytes are in the room, and were not given to anyone.
        unsafe { memory.write_bytes(0, layout.size()) };
        Ok(memory)
    }

    fn extent(&self) -> Range<usize> {
        let bounds = BOUNDS.get();
        bounds.base() + bounds.start..bounds.base() + bounds.end
    }

    fn dedicated(&self) -> Range<usize> {
        let bounds = BOUNDS.get();
        bounds.base() + bounds.low..bounds.base() + bounds.high
    }
}

/// A strategy over its own room; one per thread.
pub(crate) struct Room {
    strategy: Box<dyn Strategy>,
    bytes: usize,
    process: File,
    /// Bytes of the room and of the strategy, as the kernel reads them.
    image: Vec<u8>,
    _memory: Vec<MaybeUninit<u8>>,
}

/// A saved state of a room.
pub(crate) struct Saved {
    bounds: Bounds,
    memory: Vec<MaybeUninit<u8>>,
    strategy: Vec<MaybeUninit<u8>>,
}

impl Room {
    /// Makes a room of this many bytes, with the strategy that `make` builds over its source.
    pub(crate) fn new(bytes: usize, make: impl FnOnce(RoomSource) -> Box<dyn Strategy>) -> Self {
        let mut memory = vec![MaybeUninit::new(0); bytes + ALIGN];
        let offset = memory.as_ptr().align_offset(ALIGN);
        let base = memory[offset..].as_mut_ptr().cast();
        BOUNDS.set(Bounds { base, low: bytes, high: bytes, ..Bounds::NONE });
        let strategy = make(RoomSource);
        let process = File::open("/proc/self/mem").expect("a process reads its own memory");
        let image = vec![0; bytes + size_of_val(&*strategy)];
        Self { strategy, bytes, process, image, _memory: memory }
    }

    pub(crate) fn strategy(&self) -> &dyn Strategy {
        &*self.strategy
    }

    pub(crate) fn strategy_mut(&mut self) -> &mut dyn Strategy {
        &mut *self.strategy
    }

    /// Returns the memory that makes up the state: the room and the strategy.
    fn places(&self) -> [*mut [MaybeUninit<u8>]; 2] {
        let strategy = (&raw const *self.strategy).cast::<MaybeUninit<u8>>().cast_mut();
        [
            ptr::slice_from_raw_parts_mut(Bounds::current().base.cast(), self.bytes),
            ptr::slice_from_raw_parts_mut(strategy, size_of_val(&*self.strategy)),
        ]
    }

    pub(crate) fn save(&self) -> Saved {
        // SAFETY: both places are valid, and nothing writes to them meanwhile.
        let [memory, strategy] = self.places().map(|place| unsafe { (*place).to_vec() });
        Saved { bounds: Bounds::current(), memory, strategy }
    }

    pub(crate) fn restore(&mut self, saved: &Saved) {
        BOUNDS.set(saved.bounds);
        let strategy = (&raw mut *self.strategy).cast::<MaybeUninit<u8>>();
        let room = saved.bounds.base.cast::<MaybeUninit<u8>>();
        // SAFETY: the bytes were copied from these places. Neither a strategy nor its source owns
        // anything that needs dropping, so an old value may overwrite the current one.
        unsafe {
            room.copy_from_nonoverlapping(saved.memory.as_ptr(), saved.memory.len());
            strategy.copy_from_nonoverlapping(saved.strategy.as_ptr(), saved.strategy.len());
        }
    }

    /// Returns the bytes of room and strategy, padding included: the kernel can read padding, Rust
    /// code must not.
    pub(crate) fn image(&mut self) -> &[u8] {
        let places = self.places();
        let (room, strategy) = self.image.split_at_mut(self.bytes);
        for (place, bytes) in places.into_iter().zip([room, strategy]) {
            let read = self.process.read_exact_at(bytes, place.cast::<u8>().addr() as u64);
            read.expect("a process reads its own memory");
        }
        &self.image
    }
}
