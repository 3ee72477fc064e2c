//! A chain of lists in order of arrival, doubly linked through their [`Waiting`] part: both ends
//! are known, and any lists can be removed.

use core::iter;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;

use super::super::quick::{Lists, Waiting};

/// Returns the part of lists that is used while no thread has them.
pub(super) fn waiting(lists: NonNull<Lists>) -> &'static Waiting {
    #[cfg(test)]
    LOOKED.set(LOOKED.get() + 1);
    // SAFETY: lists are never freed.
    unsafe { &(*lists.as_ptr()).waiting }
}

#[cfg(test)]
std::thread_local! {
    /// How often the calling thread called [`waiting`].
    pub(super) static LOOKED: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}

/// Invariant: from `last` on, `next` leads through all lists of the chain to `first`, and `newer`
/// leads back; both end with null.
#[derive(Debug)]
pub(super) struct Chain {
    /// The lists that were added last; null if there are none.
    last: *mut Lists,
    /// The lists that were added first; null if there are none.
    first: *mut Lists,
}

// SAFETY: lists are bound to a thread only while it uses them.
unsafe impl Send for Chain {}

impl Chain {
    pub(super) const fn new() -> Self {
        Self { last: ptr::null_mut(), first: ptr::null_mut() }
    }

    pub(super) fn last(&self) -> Option<NonNull<Lists>> {
        NonNull::new(self.last)
    }

    pub(super) fn first(&self) -> Option<NonNull<Lists>> {
        NonNull::new(self.first)
    }

    /// Yields all lists, the last first.
    pub(super) fn iter(&self) -> impl Iterator<Item = NonNull<Lists>> {
        let older = |&lists: &NonNull<Lists>| NonNull::new(waiting(lists).next.load(Relaxed));
        iter::successors(self.last(), older)
    }

    /// Adds lists that are in no chain.
    pub(super) fn push(&mut self, lists: NonNull<Lists>) {
        waiting(lists).next.store(self.last, Relaxed);
        waiting(lists).newer.store(ptr::null_mut(), Relaxed);
        match self.last() {
            Some(last) => waiting(last).newer.store(lists.as_ptr(), Relaxed),
            None => self.first = lists.as_ptr(),
        }
        self.last = lists.as_ptr();
    }

    /// Removes lists that are in this chain.
    pub(super) fn remove(&mut self, lists: NonNull<Lists>) {
        let newer = waiting(lists).newer.load(Relaxed);
        let older = waiting(lists).next.load(Relaxed);
        match NonNull::new(newer) {
            Some(newer) => waiting(newer).next.store(older, Relaxed),
            None => self.last = older,
        }
        match NonNull::new(older) {
            Some(older) => waiting(older).newer.store(newer, Relaxed),
            None => self.first = newer,
        }
    }
}
