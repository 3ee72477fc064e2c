//! Arenas for small machines: [`SmallArena`] over a region, a borrowed buffer, or memory that is
//! supplied later, and [`StaticArena`] with its own memory.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::{MaybeUninit, forget};
use core::ptr::{NonNull, null_mut};

use super::lock::{Lock, NewLock};
use super::{Arena, DefaultLock, GLOBAL, impl_global_alloc, without_unwinding};
use crate::error::{AllocError, Fault, FreeResult};
use crate::small::SmallHeap;
use crate::source::{Borrowed, FixedSource, Region};
use crate::strategy::{Span, Strategy, Usage};

/// A [`SmallHeap`] behind a lock, over a region.
///
/// If the memory is known only at run time, as with `embedded-alloc`'s `Heap`:
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

/// The reasons why an arena cannot use a region.
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

/// The smallest region, in bytes.
const LEAST: usize = SmallHeap::<Region>::LEAST_REGION;

/// Returns an empty region.
const fn nothing() -> Region {
    // SAFETY: a region of 0 bytes hands out no memory.
    unsafe { Region::new(null_mut(), 0) }
}

impl<L: NewLock> Arena<SmallHeap<Region>, L> {
    /// Returns an arena for a small machine over a fixed region.
    ///
    /// # Errors
    /// [`RegionError::TooSmall`] if `region` is smaller than [`SmallHeap::LEAST_REGION`].
    pub const fn small(region: Region) -> Result<Self, RegionError> {
        Self::small_with_lock(region, L::NEW)
    }

    /// Returns an arena that has no memory until [`init`](Self::init) supplies it.
    #[must_use]
    pub const fn empty() -> Self {
        Self::empty_with_lock(L::NEW)
    }
}

impl<L> Arena<SmallHeap<Region>, L> {
    /// Returns an arena over a fixed region, as [`small`](Self::small) does, behind `lock`.
    ///
    /// # Errors
    /// [`RegionError::TooSmall`] if `region` is smaller than [`SmallHeap::LEAST_REGION`].
    pub const fn small_with_lock(region: Region, lock: L) -> Result<Self, RegionError> {
        if region.len() < LEAST {
            // A `const fn` cannot drop a value of generic type.
            forget(lock);
            return Err(RegionError::TooSmall);
        }
        Ok(Self::with_lock(SmallHeap::new(region, ()), lock))
    }

    /// Returns an arena without memory, as [`empty`](Self::empty) does, behind `lock`.
    #[must_use]
    pub const fn empty_with_lock(lock: L) -> Self {
        Self::with_lock(SmallHeap::new(nothing(), ()), lock)
    }
}

impl<L: Lock> Arena<SmallHeap<Region>, L> {
    /// Supplies the memory of an [empty](Self::empty) arena. Until then requests fail with
    /// [`AllocError::NoRegion`].
    ///
    /// # Errors
    /// [`RegionError::AlreadySet`] if the arena has memory; [`RegionError::TooSmall`] if `region`
    /// is smaller than [`SmallHeap::LEAST_REGION`].
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
}

impl<S: FixedSource, L: Lock> Arena<SmallHeap<S>, L> {
    /// Returns the bytes of the region that are neither in a block nor bookkeeping.
    pub fn free(&self) -> usize {
        self.with(|heap| heap.free())
    }
}

impl<'m, L: NewLock> Arena<SmallHeap<Borrowed<'m>>, L> {
    /// Returns an arena in a buffer that stays borrowed as long as the arena is used.
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
    /// assert!(arena.used() == 72 && arena.free() > 900);
    /// # Ok::<(), RegionError>(())
    /// ```
    /// # Errors
    /// [`RegionError::TooSmall`] if `memory` is shorter than [`SmallHeap::LEAST_REGION`].
    pub const fn over(memory: &'m mut [MaybeUninit<u8>]) -> Result<Self, RegionError> {
        let source = Borrowed::new(memory);
        if source.len() < LEAST {
            return Err(RegionError::TooSmall);
        }
        Ok(Self::new(SmallHeap::new(source, ())))
    }
}

/// An arena with its own `N` bytes, for a `static`. It needs neither initialisation nor `unsafe`.
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
/// It can be the `#[global_allocator]`. Moving the arena moves its memory, so blocks are valid only
/// as long as it is not moved. A `static` is never moved; it can be used as an
/// [`arena`](Self::arena) like any other, also for collections.
///
/// An `N` below [`SmallHeap::LEAST_REGION`] does not compile:
/// ```compile_fail
/// static ARENA: pagewise::StaticArena<16> = pagewise::StaticArena::new();
/// ```
#[derive(Debug)]
pub struct StaticArena<const N: usize, L = DefaultLock> {
    arena: Arena<SmallHeap<Region>, L>,
    memory: Memory<N>,
}

/// The memory, aligned like the cells of other heaps.
#[repr(align(16))]
#[derive(Debug)]
struct Memory<const N: usize>(UnsafeCell<MaybeUninit<[u8; N]>>);

// SAFETY: the memory is accessed only through the arena, under its lock.
unsafe impl<const N: usize> Sync for Memory<N> {}

impl<const N: usize, L: NewLock> StaticArena<N, L> {
    /// Returns an arena with all of its memory free.
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
    /// Returns an arena with all of its memory free, behind `lock`.
    #[must_use]
    pub const fn with_lock(lock: L) -> Self {
        const { assert!(N >= LEAST, "the memory is smaller than `SmallHeap::LEAST_REGION`") };
        // The whole value is zeros, so it takes no room in the program's file or flash. The region
        // gets its length together with its address, at the first use.
        let memory = Memory(UnsafeCell::new(MaybeUninit::uninit()));
        Self { arena: Arena::empty_with_lock(lock), memory }
    }
}

impl<const N: usize, L: Lock> StaticArena<N, L> {
    /// Runs `action` on the heap under the lock, after telling the heap the current address of its
    /// memory.
    #[inline(always)]
    fn with<R>(&self, action: impl FnOnce(&mut SmallHeap<Region>) -> R) -> R {
        self.arena.with(|heap| {
            // SAFETY: only the heap uses the memory, and both move together.
            unsafe { heap.move_to(self.memory.0.get().cast(), N) };
            action(heap)
        })
    }

    /// Returns the arena as a [`SmallArena`], which can be lent to collections and has all of an
    /// arena's methods.
    pub fn arena(&'static self) -> &'static SmallArena<L> {
        // The arena is borrowed for ever, so its memory stays at the address that the heap gets
        // here.
        self.with(|_| ());
        &self.arena
    }

    /// Allocates a block; see [`Arena::allocate`].
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] if there is not enough memory.
    #[inline]
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.with(|heap| heap.allocate(layout))
    }

    /// Frees a block; see [`Arena::deallocate`].
    ///
    /// # Safety
    /// As for [`Strategy::deallocate`].
    #[inline]
    pub unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller gives the same guarantees.
        self.with(|heap| unsafe { heap.deallocate(block, layout) });
    }

    /// Changes a block's size to `new_size` bytes; see [`Arena::reallocate`].
    ///
    /// # Errors
    /// As for [`allocate`](Self::allocate); the block is then unchanged.
    ///
    /// # Safety
    /// As for [`Strategy::reallocate`].
    #[inline]
    pub unsafe fn reallocate(
        &self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller gives the same guarantees.
        self.with(|heap| unsafe { heap.reallocate(block, layout, new_size) })
    }

    /// Changes a block's size to `new_size` bytes without moving it; see
    /// [`Arena::resize_in_place`].
    ///
    /// # Safety
    /// As for [`Strategy::resize_in_place`].
    #[inline]
    pub unsafe fn resize_in_place(
        &self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<[u8]>> {
        // SAFETY: the caller gives the same guarantees.
        self.with(|heap| unsafe { heap.resize_in_place(block, layout, new_size) })
    }

    /// Returns whether a block in use that fits `layout` starts at `block`; see
    /// [`Arena::is_in_use`].
    pub fn is_in_use(&self, block: NonNull<u8>, layout: Layout) -> bool {
        self.with(|heap| heap.is_in_use(block, layout))
    }

    /// Frees a block if it is in use; see [`Arena::try_free`].
    ///
    /// # Safety
    /// As for [`Strategy::try_free`].
    pub unsafe fn try_free(&self, block: NonNull<u8>, layout: Layout) -> FreeResult {
        // SAFETY: the caller gives the same guarantees.
        self.with(|heap| unsafe { heap.try_free(block, layout) })
    }

    /// Returns the bytes of the blocks in use.
    pub fn used(&self) -> usize {
        self.arena.used()
    }

    /// Returns the bytes that are neither in a block nor bookkeeping.
    pub fn free(&self) -> usize {
        self.with(|heap| heap.free())
    }

    /// Returns the memory in use and held.
    pub fn usage(&self) -> Usage {
        self.arena.usage()
    }

    /// Calls `visit` for every span; see [`Arena::walk`].
    pub fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.with(|heap| heap.walk(visit));
    }

    /// Checks every invariant; see [`Arena::audit`].
    ///
    /// # Errors
    /// The first violated invariant, and its address.
    pub fn audit(&self) -> Result<(), Fault> {
        self.with(|heap| heap.audit())
    }
}

impl_global_alloc!([const N: usize, L: Lock] StaticArena<N, L>);
