//! Arenas for small machines: [`SmallArena`] over a region, a borrowed buffer, or memory that is known
//! later, and [`StaticArena`] with memory of its own.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::{MaybeUninit, forget};
use core::ptr::{NonNull, null_mut};

use super::lock::{Lock, NewLock};
use super::{Arena, DefaultLock, without_unwinding};
use crate::error::{AllocError, Fault, Freed};
use crate::small::SmallHeap;
use crate::source::{Borrowed, Region};
use crate::strategy::{Span, Strategy, Usage};

/// A [`SmallHeap`] behind a lock, over a region.
///
/// Where the memory is known only when the program runs, as with `embedded-alloc`'s `Heap`:
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use pagewise::arena::RegionError;
/// use pagewise::{AllocError, Region, SmallArena};
///
/// static HEAP: SmallArena = SmallArena::empty();
///
/// let layout = Layout::new::<[u32; 4]>();
/// assert_eq!(HEAP.allocate(layout), Err(AllocError::NoRegion), "there is no memory yet");
///
/// let memory = Box::leak(Box::new([MaybeUninit::uninit(); 4096]));
/// HEAP.init(Region::from_static(memory))?;
/// assert!(HEAP.allocate(layout).is_ok());
/// assert_eq!(HEAP.used(), 16);
/// # Ok::<(), RegionError>(())
/// ```
pub type SmallArena<L = DefaultLock> = Arena<SmallHeap<Region>, L>;

/// Why there is no arena over this memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RegionError {
    /// The region is smaller than [`SmallHeap::LEAST_REGION`].
    TooSmall,
    /// The arena has a region already.
    AlreadySet,
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooSmall => "the region is smaller than the least that has room for a block",
            Self::AlreadySet => "the arena has a region already",
        })
    }
}

impl core::error::Error for RegionError {}

/// The least region.
const LEAST: usize = SmallHeap::<Region>::LEAST_REGION;

/// A region of no bytes.
const fn nothing() -> Region {
    // SAFETY: a region of no bytes hands out nothing.
    unsafe { Region::new(null_mut(), 0) }
}

impl<L: NewLock> Arena<SmallHeap<Region>, L> {
    /// An arena for a small machine, over a fixed region.
    ///
    /// # Errors
    /// [`RegionError::TooSmall`] below [`SmallHeap::LEAST_REGION`].
    pub const fn small(region: Region) -> Result<Self, RegionError> {
        Self::small_with_lock(region, L::NEW)
    }

    /// An arena that has no memory until [`init`](Self::init) gives it some.
    #[must_use]
    pub const fn empty() -> Self {
        Self::empty_with_lock(L::NEW)
    }
}

impl<L> Arena<SmallHeap<Region>, L> {
    /// As [`small`](Self::small), behind this lock.
    ///
    /// # Errors
    /// [`RegionError::TooSmall`] below [`SmallHeap::LEAST_REGION`].
    pub const fn small_with_lock(region: Region, lock: L) -> Result<Self, RegionError> {
        if region.len() < LEAST {
            // A `const fn` must not drop what it knows nothing of.
            forget(lock);
            return Err(RegionError::TooSmall);
        }
        Ok(Self::with_lock(SmallHeap::new(region, ()), lock))
    }

    /// As [`empty`](Self::empty), behind this lock.
    #[must_use]
    pub const fn empty_with_lock(lock: L) -> Self {
        Self::with_lock(SmallHeap::new(nothing(), ()), lock)
    }
}

impl<L: Lock> Arena<SmallHeap<Region>, L> {
    /// Gives an [empty](Self::empty) arena its memory. Until then requests are answered with
    /// [`AllocError::NoRegion`].
    ///
    /// # Errors
    /// [`RegionError::AlreadySet`] if it has memory; [`RegionError::TooSmall`] below
    /// [`SmallHeap::LEAST_REGION`].
    pub fn init(&self, region: Region) -> Result<(), RegionError> {
        self.with(|heap| {
            if heap.source().len() > 0 {
                return Err(RegionError::AlreadySet);
            }
            if region.len() < LEAST {
                return Err(RegionError::TooSmall);
            }
            *heap = SmallHeap::new(region, ());
            Ok(())
        })
    }

    /// Bytes of the region that are in no block and no bookkeeping.
    pub fn free(&self) -> usize {
        self.with(|heap| heap.free())
    }
}

impl<'m, L: NewLock> Arena<SmallHeap<Borrowed<'m>>, L> {
    /// An arena in a buffer that is borrowed as long as the arena is used.
    ///
    /// ```
    /// use core::alloc::Layout;
    /// use core::mem::MaybeUninit;
    /// use pagewise::arena::{lock::Single, RegionError};
    /// use pagewise::source::Borrowed;
    /// use pagewise::{Arena, SmallHeap};
    ///
    /// let mut memory = [MaybeUninit::uninit(); 1000];
    /// let arena: Arena<SmallHeap<Borrowed>, Single> = Arena::over(&mut memory)?;
    /// assert!(arena.allocate(Layout::new::<[u64; 9]>()).is_ok());
    /// # Ok::<(), RegionError>(())
    /// ```
    /// # Errors
    /// [`RegionError::TooSmall`] below [`SmallHeap::LEAST_REGION`].
    pub const fn over(memory: &'m mut [MaybeUninit<u8>]) -> Result<Self, RegionError> {
        let source = Borrowed::new(memory);
        if source.len() < LEAST {
            return Err(RegionError::TooSmall);
        }
        Ok(Self::new(SmallHeap::new(source, ())))
    }
}

/// An arena with `N` bytes of its own, for a `static`: nothing needs to be set up, and nothing is `unsafe`.
///
/// ```
/// use core::alloc::Layout;
/// use pagewise::{AllocError, StaticArena};
///
/// static ARENA: StaticArena<8192> = StaticArena::new();
///
/// let block = ARENA.allocate(Layout::new::<[u8; 100]>())?;
/// assert_eq!((block.len(), ARENA.used()), (104, 104));
/// assert!(ARENA.allocate(Layout::new::<[u8; 8192]>()).is_err());
/// assert_eq!(ARENA.audit(), Ok(()));
/// # Ok::<(), AllocError>(())
/// ```
/// It can be the `#[global_allocator]`. A block lives as long as the arena stays where it is: an arena that is
/// moved takes its memory along. What is `static` is not moved, and is an [`arena`](Self::arena) like any other, also for
/// collections.
///
/// Fewer bytes than [`SmallHeap::LEAST_REGION`] do not compile:
/// ```compile_fail
/// static ARENA: pagewise::StaticArena<16> = pagewise::StaticArena::new();
/// ```
#[derive(Debug)]
pub struct StaticArena<const N: usize, L = DefaultLock> {
    arena: Arena<SmallHeap<Region>, L>,
    memory: Memory<N>,
}

/// Aligned as the cells of other heaps.
#[repr(align(16))]
#[derive(Debug)]
struct Memory<const N: usize>(UnsafeCell<MaybeUninit<[u8; N]>>);

// SAFETY: the memory is reached through the arena alone.
unsafe impl<const N: usize> Sync for Memory<N> {}

impl<const N: usize, L: NewLock> StaticArena<N, L> {
    /// The arena, with all of its memory free.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_lock(L::NEW)
    }
}

impl<const N: usize, L: NewLock> Default for StaticArena<N, L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize, L> StaticArena<N, L> {
    /// The arena, behind this lock.
    #[must_use]
    pub const fn with_lock(lock: L) -> Self {
        const { assert!(N >= LEAST, "the memory is smaller than `SmallHeap::LEAST_REGION`") };
        // All of it is zeros, so that it takes no room in a program's file or flash: the region gets its length
        // with its address, when it is used.
        let memory = Memory(UnsafeCell::new(MaybeUninit::uninit()));
        Self { arena: Arena::empty_with_lock(lock), memory }
    }
}

impl<const N: usize, L: Lock> StaticArena<N, L> {
    /// Runs `action` on the heap under the lock, told where its memory is.
    #[inline(always)]
    fn with<R>(&self, action: impl FnOnce(&mut SmallHeap<Region>) -> R) -> R {
        self.arena.with(|heap| {
            // SAFETY: the memory is the heap's alone, and moves with it.
            unsafe { heap.move_to(self.memory.0.get().cast(), N) };
            action(heap)
        })
    }

    /// The arena as one that can be lent: for collections, and all that an arena can do.
    pub fn arena(&'static self) -> &'static SmallArena<L> {
        // It is borrowed for good, so its memory stays where it is told to be now.
        self.with(|_| ());
        &self.arena
    }

    /// As [`Arena::allocate`].
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] when there is no more memory that would do.
    #[inline]
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.with(|heap| heap.allocate(layout))
    }

    /// As [`Arena::deallocate`].
    ///
    /// # Safety
    /// As [`Strategy::deallocate`].
    #[inline]
    pub unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: passed on.
        self.with(|heap| unsafe { heap.deallocate(block, layout) });
    }

    /// As [`Arena::reallocate`].
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate); the block is untouched.
    ///
    /// # Safety
    /// As [`Strategy::reallocate`].
    #[inline]
    pub unsafe fn reallocate(
        &self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: passed on.
        self.with(|heap| unsafe { heap.reallocate(block, layout, new_size) })
    }

    /// As [`Arena::try_free`].
    ///
    /// # Safety
    /// As [`Strategy::try_free`].
    pub unsafe fn try_free(&self, block: NonNull<u8>, layout: Layout) -> Freed {
        // SAFETY: passed on.
        self.with(|heap| unsafe { heap.try_free(block, layout) })
    }

    /// Bytes of the blocks in use.
    pub fn used(&self) -> usize {
        self.arena.used()
    }

    /// Bytes that are in no block and no bookkeeping.
    pub fn free(&self) -> usize {
        self.with(|heap| heap.free())
    }

    /// What is in use and what is held.
    pub fn usage(&self) -> Usage {
        self.arena.usage()
    }

    /// As [`Arena::walk`].
    pub fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.with(|heap| heap.walk(visit));
    }

    /// As [`Arena::audit`].
    ///
    /// # Errors
    /// The first invariant found violated, and where.
    pub fn audit(&self) -> Result<(), Fault> {
        self.with(|heap| heap.audit())
    }
}

// SAFETY: the heap's promises; nothing unwinds.
unsafe impl<const N: usize, L: Lock> GlobalAlloc for StaticArena<N, L> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        without_unwinding(|| self.allocate(layout))
            .map_or(null_mut(), |block| block.cast().as_ptr())
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller allocated the block here with this layout; it is not null.
        without_unwinding(|| unsafe { self.deallocate(NonNull::new_unchecked(block), layout) });
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as `dealloc`; the caller promises that the new size does not overflow.
        let moved = without_unwinding(|| unsafe {
            self.reallocate(NonNull::new_unchecked(block), layout, new_size)
        });
        moved.map_or(null_mut(), |block| block.cast().as_ptr())
    }
}
