//! Arenas: a strategy behind a lock, usable through `&self`, as `#[global_allocator]`, or as the
//! allocator of collections.
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
//! An arena works with every strategy of the [`catalogue`](crate::catalogue) and every
//! [`Source`](crate::source). The default is PAGEWISE ([`PageHeap`]), the best all-round strategy
//! by measurement (`cargo bench --bench arenas`, `docs/arena.md`). Of the arenas measured it is the
//! fastest at every mix of sizes with some hundred live blocks. It fills a region of small blocks
//! by far the fullest, and other regions within 0.2 % of the fullest. With thousands of live blocks
//! of kilobytes talc is up to an eighth faster. Of the named strategies only PAGEWISE both stores
//! small blocks without headers and takes constant time for large ones.

// `lock`: the locks. `claims`: an arena over several regions. `small`: arenas for small machines.
// `allocator`: collections.
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
use crate::error::{AllocError, Fault, FreeResult};
use crate::pages::Config;
use crate::pages::PageHeap;
use crate::source::Region;
#[cfg(all(feature = "os", any(unix, windows, target_arch = "wasm32")))]
use crate::source::Reserved;
use crate::strategy::{Span, Strategy, Usage};

/// The lock of an arena unless another is named: with `std`, [`Yielding`](lock::Yielding), for
/// threads; without it, that of the feature `critical-section`; without both,
/// [`Exclusive`](lock::Exclusive), which never waits.
#[cfg(feature = "std")]
pub type DefaultLock = lock::Yielding;
/// The lock of an arena unless another is named: with `std`, one for threads; without it, that of
/// the feature `critical-section`.
#[cfg(all(not(feature = "std"), feature = "critical-section"))]
pub type DefaultLock = lock::CriticalSection;
/// The lock of an arena unless another is named: with `std`, one for threads; without it, that of
/// the feature `critical-section`; without both, [`Exclusive`](lock::Exclusive), which never waits.
#[cfg(all(not(any(feature = "std", feature = "critical-section")), target_has_atomic = "8"))]
pub type DefaultLock = lock::Exclusive;
/// The lock of an arena unless another is named. This target has no atomic operations, so the arena
/// stays on one thread.
#[cfg(not(any(feature = "std", feature = "critical-section", target_has_atomic = "8")))]
pub type DefaultLock = lock::Single;

/// A strategy behind a lock. All methods take `&self`.
///
/// Over a fixed region, in a program with threads (and `std`):
/// ```
/// use core::alloc::Layout;
/// use pagewise::{Arena, FreeResult, Region};
///
/// const LEN: usize = 1 << 20;
/// static mut MEMORY: [u8; LEN] = [0; LEN];
///
/// // SAFETY: nothing else uses the memory.
/// static ARENA: Arena = Arena::fixed(unsafe { Region::new((&raw mut MEMORY).cast(), LEN) });
///
/// let layout = Layout::new::<[u64; 5]>();
/// let block = ARENA.allocate(layout)?.cast::<u8>();
/// assert_eq!(ARENA.usage().requested, 40);
/// // A checked free: the second time it is refused.
/// // SAFETY: the block is not used any more.
/// unsafe {
///     assert_eq!(ARENA.try_free(block, layout), FreeResult::Freed);
///     assert_eq!(ARENA.try_free(block, layout), FreeResult::Unallocated);
/// }
/// assert_eq!(ARENA.audit(), Ok(()));
/// # Ok::<(), pagewise::AllocError>(())
/// ```
/// Without `std`, a `static` may need a lock that you name: the system's own through `lock_api`, or
/// [`Unshared`](lock::Unshared) if the program has one thread:
/// ```
/// use pagewise::arena::lock::Unshared;
/// use pagewise::{Arena, PageHeap, Region};
///
/// static mut MEMORY: [u8; 1 << 16] = [0; 1 << 16];
///
/// // SAFETY: nothing else uses the memory, and the program has one thread.
/// static ARENA: Arena<PageHeap<Region>, Unshared> = unsafe {
///     Arena::fixed_with_lock(Region::new((&raw mut MEMORY).cast(), 1 << 16), Unshared::new())
/// };
/// ```
#[derive(Debug)]
pub struct Arena<S = PageHeap<Region>, L = DefaultLock> {
    lock: L,
    strategy: UnsafeCell<S>,
}

// SAFETY: the strategy is accessed only under the lock, so by one thread at a time; `S: Send`
// allows different threads.
unsafe impl<S: Send, L: Sync> Sync for Arena<S, L> {}

impl<L: NewLock> Arena<PageHeap<Region>, L> {
    /// Returns an arena of the default strategy over a fixed region.
    #[must_use]
    pub const fn fixed(region: Region) -> Self {
        Self::new(PageHeap::new(Config::arena(), region, ()))
    }
}

impl<L> Arena<PageHeap<Region>, L> {
    /// Returns an arena of the default strategy over a fixed region, behind `lock`.
    #[must_use]
    pub const fn fixed_with_lock(region: Region, lock: L) -> Self {
        Self::with_lock(PageHeap::new(Config::arena(), region, ()), lock)
    }
}

#[cfg(all(feature = "os", any(unix, windows, target_arch = "wasm32")))]
impl<L: NewLock> Arena<PageHeap<Reserved>, L> {
    /// Returns an arena of the default strategy over a reservation of at most `capacity` bytes of
    /// address space. Only memory that is touched is used.
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
    /// Returns an arena of `strategy` behind a new lock.
    #[must_use]
    pub const fn new(strategy: S) -> Self {
        Self::with_lock(strategy, L::NEW)
    }
}

impl<S, L> Arena<S, L> {
    /// Returns an arena of `strategy` behind `lock`.
    #[must_use]
    pub const fn with_lock(strategy: S, lock: L) -> Self {
        Self { lock, strategy: UnsafeCell::new(strategy) }
    }

    /// Returns the strategy. The exclusive borrow ensures that no collection has a block of it.
    pub fn get_mut(&mut self) -> &mut S {
        self.strategy.get_mut()
    }

    /// Returns the strategy.
    pub fn into_inner(self) -> S {
        self.strategy.into_inner()
    }
}

impl<S: Strategy, L: Lock> Arena<S, L> {
    /// Runs `action` on the strategy under the lock.
    #[inline(always)]
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut S) -> R) -> R {
        /// Releases the lock, also if `action` unwinds.
        struct Guard<'a, L: Lock>(&'a L);
        impl<L: Lock> Drop for Guard<'_, L> {
            #[inline(always)]
            fn drop(&mut self) {
                // `action` may have moved a block; a caller that caught the panic would not know.
                // SAFETY: the lock was taken just before the guard was created.
                without_unwinding("the release of an arena's lock", || unsafe { self.0.unlock() });
            }
        }

        self.lock.lock();
        let _guard = Guard(&self.lock);
        // SAFETY: the lock is held, and no `action` uses the arena.
        action(unsafe { &mut *self.strategy.get() })
    }

    /// Allocates a block; see [`Strategy::allocate`].
    ///
    /// # Errors
    /// As for [`Strategy::allocate`]: [`AllocError::Exhausted`] if there is not enough memory.
    #[inline]
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.with(|strategy| strategy.allocate(layout))
    }

    /// Frees a block.
    ///
    /// # Safety
    /// As for [`Strategy::deallocate`].
    #[inline]
    pub unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller gives the same guarantees.
        self.with(|strategy| unsafe { strategy.deallocate(block, layout) });
    }

    /// Changes a block's size to `new_size` bytes and moves it if necessary; see
    /// [`Strategy::reallocate`].
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
        self.with(|strategy| unsafe { strategy.reallocate(block, layout, new_size) })
    }

    /// Changes a block's size to `new_size` bytes without moving it; see
    /// [`Strategy::resize_in_place`]. Returns `None`, and changes nothing, if it cannot stay.
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
        self.with(|strategy| unsafe { strategy.resize_in_place(block, layout, new_size) })
    }

    /// Returns whether a block in use that fits `layout` starts at `block`. Any pointer is allowed.
    /// See [`Strategy::is_in_use`].
    pub fn is_in_use(&self, block: NonNull<u8>, layout: Layout) -> bool {
        self.with(|strategy| strategy.is_in_use(block, layout))
    }

    /// Frees a block if it [is in use](Self::is_in_use). Any pointer is allowed. See
    /// [`Strategy::try_free`].
    ///
    /// An arena cannot know whether a block is still needed. If it is, its user would afterwards
    /// read and write another block's memory. So safe code may ask whether a block is in use, but
    /// not free it:
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
    /// As for [`Strategy::try_free`]: if the result is [`FreeResult::Freed`], the block must not be
    /// used any more.
    pub unsafe fn try_free(&self, block: NonNull<u8>, layout: Layout) -> FreeResult {
        // SAFETY: the caller gives the same guarantees.
        self.with(|strategy| unsafe { strategy.try_free(block, layout) })
    }

    /// Returns the bytes of the blocks in use.
    pub fn used(&self) -> usize {
        self.usage().block
    }

    /// Returns the memory in use and held.
    pub fn usage(&self) -> Usage {
        self.with(|strategy| strategy.usage())
    }

    /// Calls `visit` for every span of the memory held, in address order. `visit` must not use the
    /// arena: it would deadlock or panic.
    pub fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.with(|strategy| strategy.walk(visit));
    }

    /// Checks every invariant.
    ///
    /// # Errors
    /// The first violated invariant, and its address.
    pub fn audit(&self) -> Result<(), Fault> {
        self.with(|strategy| strategy.audit())
    }
}

impl<S: Strategy, const N: usize, L: Lock> Arena<Claims<S, N>, L> {
    /// Adds a strategy over further memory; see [`Claims::claim`].
    ///
    /// # Errors
    /// As for [`Claims::claim`].
    pub fn claim(&self, strategy: S) -> Result<(), ClaimError<S>> {
        self.with(|claims| claims.claim(strategy))
    }

    /// Takes back the first strategy for which `which` is true, if it has no block in use; see
    /// [`Claims::release`]. `which` must not use the arena: it would deadlock or panic.
    pub fn release(&self, which: impl FnMut(&S) -> bool) -> Option<S> {
        self.with(|claims| claims.release(which))
    }
}

/// Stops the process when dropped during a panic: a panic during another one aborts, with or
/// without `std`. Holds the place of the first panic, for the message.
struct NoUnwinding(&'static str);

impl Drop for NoUnwinding {
    #[cold]
    fn drop(&mut self) {
        panic!("a panic within {}", self.0);
    }
}

/// The place that [`without_unwinding`] names for an arena's methods as a [`GlobalAlloc`].
const GLOBAL: &str = "a global allocator";

/// Runs `action`; if it panics, stops the process instead of unwinding out of `place`.
#[inline(always)]
fn without_unwinding<R>(place: &'static str, action: impl FnOnce() -> R) -> R {
    let guard = NoUnwinding(place);
    let result = action();
    core::mem::forget(guard);
    result
}

/// Implements `GlobalAlloc` for an arena that has `allocate`, `deallocate` and `reallocate`.
macro_rules! impl_global_alloc {
    ([$($parameters:tt)*] $arena:ty) => {
        // SAFETY: the strategy gives the guarantees that `GlobalAlloc` requires, and nothing
        // unwinds.
        unsafe impl<$($parameters)*> GlobalAlloc for $arena {
            #[inline]
            unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
                without_unwinding(GLOBAL, || self.allocate(layout))
                    .map_or(null_mut(), |block| block.cast().as_ptr())
            }

            #[inline]
            unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
                // SAFETY: the caller guarantees that the block was allocated here with this layout,
                // so it is not null.
                without_unwinding(GLOBAL, || unsafe {
                    self.deallocate(NonNull::new_unchecked(block), layout)
                });
            }

            #[inline]
            unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
                // SAFETY: as in `dealloc`; the caller guarantees that the new size does not
                // overflow.
                let moved = without_unwinding(GLOBAL, || unsafe {
                    self.reallocate(NonNull::new_unchecked(block), layout, new_size)
                });
                moved.map_or(null_mut(), |block| block.cast().as_ptr())
            }
        }
    };
}
use impl_global_alloc;

impl_global_alloc!([S: Strategy, L: Lock] Arena<S, L>);
