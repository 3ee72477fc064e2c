//! Arenas: a strategy behind a lock, usable through `&self`, as `#[global_allocator]`, and for
//! collections.
//!
//! ```text
//!  Vec, Box, hashbrown         a program's allocations
//!        │ allocator-api2            │ GlobalAlloc
//!        ▼                           ▼
//!  ┌──────────────── Arena ──────────────┐
//!  │ lock: Single, Yielding, a RawMutex … │
//!  │ strategy: PAGEWISE, or any other     │
//!  │ source: Region, Reserved …           │
//!  └──────────────────────────────────────┘
//! ```
//! Every strategy of the [`catalogue`](crate::catalogue) can stand in an arena, over every
//! [`Source`](crate::source). By default it is PAGEWISE ([`PageHeap`]), the best all-round strategy by
//! measurement (`cargo bench --bench arenas`, `docs/arena.md`): of the arenas measured it is the fastest
//! at every mix of sizes with some hundred live blocks, fills a region of small blocks by far the
//! fullest, and others within two tenths of a per cent of the fullest. With thousands of live blocks of
//! kilobytes talc is up to an eighth faster. Of the named strategies PAGEWISE alone keeps small blocks
//! free of headers *and* takes constant time for large ones.

// `lock`: what keeps users apart. `claims`: an arena over several regions. `small`: for small machines. `allocator`: collections.
#[cfg(feature = "allocator-api2")]
mod allocator;
mod claims;
pub mod lock;
mod small;

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{NonNull, null_mut};

pub use self::claims::{ClaimError, Claims};
use self::lock::{Lock, NewLock};
pub use self::small::{RegionError, SmallArena, StaticArena};
use crate::error::{AllocError, Fault, Freed};
use crate::pages::Config;
use crate::pages::PageHeap;
use crate::source::Region;
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
use crate::source::Reserved;
use crate::strategy::{Span, Strategy, Usage};

/// The lock an arena has unless another is named: with `std` one for threads, [`Yielding`](lock::Yielding); without it that
/// of the feature `critical-section`, and without this, too, [`Exclusive`](lock::Exclusive), for which there is nobody to wait.
#[cfg(feature = "std")]
pub type DefaultLock = lock::Yielding;
/// The lock an arena has unless another is named: with `std` one for threads; without it that of
/// the feature `critical-section`.
#[cfg(all(not(feature = "std"), feature = "critical-section"))]
pub type DefaultLock = lock::CriticalSection;
/// The lock an arena has unless another is named: with `std` one for threads; without it that of
/// the feature `critical-section`, and without this, too, [`Exclusive`](lock::Exclusive), for which there is nobody to wait.
#[cfg(all(not(any(feature = "std", feature = "critical-section")), target_has_atomic = "8"))]
pub type DefaultLock = lock::Exclusive;
/// The lock an arena has unless another is named. This target has no atomic operations: one thread.
#[cfg(not(any(feature = "std", feature = "critical-section", target_has_atomic = "8")))]
pub type DefaultLock = lock::Single;

/// A strategy behind a lock. All methods take `&self`.
///
/// In a fixed region, of a program with threads (and `std`):
/// ```
/// use core::alloc::Layout;
/// use pagewise::{Arena, Freed, Region};
///
/// const LEN: usize = 1 << 20;
/// static mut MEMORY: [u8; LEN] = [0; LEN];
///
/// // SAFETY: nobody else uses the memory.
/// static ARENA: Arena = Arena::fixed(unsafe { Region::new((&raw mut MEMORY).cast(), LEN) });
///
/// let layout = Layout::new::<[u64; 5]>();
/// let block = ARENA.allocate(layout)?.cast::<u8>();
/// assert_eq!(ARENA.usage().requested, 40);
/// // Checked: a second time it is refused.
/// // SAFETY: nobody uses the block any more.
/// unsafe {
///     assert_eq!(ARENA.try_free(block, layout), Freed::Freed);
///     assert_eq!(ARENA.try_free(block, layout), Freed::Unallocated);
/// }
/// assert_eq!(ARENA.audit(), Ok(()));
/// # Ok::<(), pagewise::AllocError>(())
/// ```
/// Without `std`, a `static` needs a lock that you name: the system's own through `lock_api`, or, where
/// there is one thread, [`Unshared`](lock::Unshared):
/// ```
/// use pagewise::arena::lock::Unshared;
/// use pagewise::{Arena, PageHeap, Region};
///
/// static mut MEMORY: [u8; 1 << 16] = [0; 1 << 16];
///
/// // SAFETY: nobody else uses the memory, and the program has one thread.
/// static ARENA: Arena<PageHeap<Region>, Unshared> = unsafe {
///     Arena::fixed_with_lock(Region::new((&raw mut MEMORY).cast(), 1 << 16), Unshared::new())
/// };
/// ```
#[derive(Debug)]
pub struct Arena<S = PageHeap<Region>, L = DefaultLock> {
    lock: L,
    strategy: UnsafeCell<S>,
}

// SAFETY: the strategy is reached under the lock alone, by one thread at a time; it may go from
// one thread to another.
unsafe impl<S: Send, L: Sync> Sync for Arena<S, L> {}

impl<L: NewLock> Arena<PageHeap<Region>, L> {
    /// The default strategy over a fixed region.
    #[must_use]
    pub const fn fixed(region: Region) -> Self {
        Self::new(PageHeap::new(Config::arena(), region, ()))
    }
}

impl<L> Arena<PageHeap<Region>, L> {
    /// The default strategy over a fixed region, behind this lock.
    #[must_use]
    pub const fn fixed_with_lock(region: Region, lock: L) -> Self {
        Self::with_lock(PageHeap::new(Config::arena(), region, ()), lock)
    }
}

#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
impl<L: NewLock> Arena<PageHeap<Reserved>, L> {
    /// The default strategy over a reservation of at most `capacity` bytes of address space. Only the
    /// memory that is touched counts.
    ///
    /// ```
    /// use pagewise::{Arena, PageHeap, Reserved};
    ///
    /// static ARENA: Arena<PageHeap<Reserved>> = Arena::growing(1 << 34);
    /// ```
    #[must_use]
    pub const fn growing(capacity: usize) -> Self {
        Self::new(PageHeap::new(Config::arena(), Reserved::new(capacity), ()))
    }
}

impl<S, L: NewLock> Arena<S, L> {
    /// A strategy behind a new lock.
    #[must_use]
    pub const fn new(strategy: S) -> Self {
        Self::with_lock(strategy, L::NEW)
    }
}

impl<S, L> Arena<S, L> {
    /// A strategy behind this lock.
    #[must_use]
    pub const fn with_lock(strategy: S, lock: L) -> Self {
        Self { lock, strategy: UnsafeCell::new(strategy) }
    }

    /// The strategy: with the arena borrowed exclusively, no collection has a block of it.
    pub fn get_mut(&mut self) -> &mut S {
        self.strategy.get_mut()
    }

    /// The strategy.
    pub fn into_inner(self) -> S {
        self.strategy.into_inner()
    }
}

impl<S: Strategy, L: Lock> Arena<S, L> {
    /// Runs `action` on the strategy under the lock.
    #[inline(always)]
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut S) -> R) -> R {
        /// Lets go of the lock also if the action unwinds.
        struct Guard<'a, L: Lock>(&'a L);
        impl<L: Lock> Drop for Guard<'_, L> {
            #[inline(always)]
            fn drop(&mut self) {
                // SAFETY: the lock was taken just before the guard was made.
                unsafe { self.0.unlock() };
            }
        }

        self.lock.lock();
        let _guard = Guard(&self.lock);
        // SAFETY: the lock is held, and nothing that `with` is given uses the arena.
        action(unsafe { &mut *self.strategy.get() })
    }

    /// Allocates a block; as [`Strategy::allocate`].
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] when there is no more memory that would do.
    #[inline]
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.with(|strategy| strategy.allocate(layout))
    }

    /// Frees a block.
    ///
    /// # Safety
    /// As [`Strategy::deallocate`].
    #[inline]
    pub unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: passed on.
        self.with(|strategy| unsafe { strategy.deallocate(block, layout) });
    }

    /// Resizes a block, moving it where it must; as [`Strategy::reallocate`].
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
        self.with(|strategy| unsafe { strategy.reallocate(block, layout, new_size) })
    }

    /// Whether a block in use starts at `block` that could be known by `layout`; any pointer may be
    /// passed. As [`Strategy::is_in_use`].
    pub fn is_in_use(&self, block: NonNull<u8>, layout: Layout) -> bool {
        self.with(|strategy| strategy.is_in_use(block, layout))
    }

    /// Frees a block after verifying that it is one; any pointer may be passed. As
    /// [`Strategy::try_free`].
    ///
    /// Whether a block may be freed is not for an arena to know: whoever uses it then reads and writes
    /// another's memory. So safe code may [ask](Self::is_in_use), and not free.
    /// ```compile_fail,E0133
    /// use core::alloc::Layout;
    /// use core::ptr::NonNull;
    /// use pagewise::Arena;
    ///
    /// fn hostile(arena: &Arena, live: &mut Box<u64>) {
    ///     let _ = arena.try_free(NonNull::from(&mut **live).cast(), Layout::new::<u64>());
    /// }
    /// ```
    ///
    /// # Safety
    /// As [`Strategy::try_free`]: if the answer is [`Freed::Freed`], nobody uses the block any more.
    pub unsafe fn try_free(&self, block: NonNull<u8>, layout: Layout) -> Freed {
        // SAFETY: passed on.
        self.with(|strategy| unsafe { strategy.try_free(block, layout) })
    }

    /// Bytes of the blocks in use.
    pub fn used(&self) -> usize {
        self.usage().block
    }

    /// What is in use and what is held.
    pub fn usage(&self) -> Usage {
        self.with(|strategy| strategy.usage())
    }

    /// Calls `visit` for every span of the memory held, in address order. The visitor must not use
    /// the arena: it would wait for itself, or panic.
    pub fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.with(|strategy| strategy.walk(visit));
    }

    /// Checks every invariant.
    ///
    /// # Errors
    /// The first invariant found violated, and where.
    pub fn audit(&self) -> Result<(), Fault> {
        self.with(|strategy| strategy.audit())
    }
}

impl<S: Strategy, const N: usize, L: Lock> Arena<Claims<S, N>, L> {
    /// Adds a strategy, over further memory; as [`Claims::claim`].
    ///
    /// # Errors
    /// As [`Claims::claim`].
    pub fn claim(&self, strategy: S) -> Result<(), ClaimError<S>> {
        self.with(|claims| claims.claim(strategy))
    }
}

/// Stops the process instead of unwinding, which a global allocator must not do: a panic while
/// another unwinds ends it, with or without `std`.
struct NoUnwinding;

impl Drop for NoUnwinding {
    #[cold]
    fn drop(&mut self) {
        panic!("a panic within a global allocator");
    }
}

/// Does something and does not unwind.
#[inline(always)]
fn without_unwinding<R>(action: impl FnOnce() -> R) -> R {
    let guard = NoUnwinding;
    let result = action();
    core::mem::forget(guard);
    result
}

// SAFETY: the strategy's promises are those `GlobalAlloc` asks for; nothing unwinds.
unsafe impl<S: Strategy, L: Lock> GlobalAlloc for Arena<S, L> {
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
