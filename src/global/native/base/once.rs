//! A value that is set once, and that any thread reads from then on. The standard library has one,
//! but the allocator also serves programs without it.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const EMPTY: u8 = 0;
/// A thread copies the value.
const CLAIMED: u8 = 1;
const SET: u8 = 2;

/// Invariants: only the thread that turned `state` from `EMPTY` to `CLAIMED` writes the value, and
/// turns it to `SET` after that. Nothing changes once it is `SET`.
#[derive(Debug)]
pub(in crate::global::native) struct Once<T> {
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: a thread gets the value from another one, as with `Send`, and all threads then share it,
// as with `Sync`.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T: Copy> Once<T> {
    pub(in crate::global::native) const fn new() -> Self {
        Self { state: AtomicU8::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Returns the value; `None` if it is not set.
    #[inline]
    pub(in crate::global::native) fn get(&self) -> Option<&T> {
        // SAFETY: the value was written before the state became `SET`, and is not changed again.
        (self.state.load(Acquire) == SET).then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// Sets the value; returns whether it was neither set nor being set by another thread.
    pub(in crate::global::native) fn set(&self, value: T) -> bool {
        let claimed = self.state.compare_exchange(EMPTY, CLAIMED, Relaxed, Relaxed).is_ok();
        if claimed {
            // SAFETY: this thread alone has claimed the value, and nobody reads it yet.
            unsafe { (*self.value.get()).write(value) };
            self.state.store(SET, Release);
        }
        claimed
    }

    /// Returns the value, which becomes this one unless another was set before. Waits while another
    /// thread copies its value.
    pub(in crate::global::native) fn get_or_set(&self, value: T) -> &T {
        self.set(value);
        loop {
            if let Some(value) = self.get() {
                return value;
            }
            core::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn the_first_value_stays() {
        let once = Once::new();
        assert_eq!(once.get(), None);
        assert!(once.set(1) && !once.set(2));
        assert_eq!((once.get(), *once.get_or_set(3)), (Some(&1), 1));
    }

    /// Of several threads that set it at once, one succeeds, and all get its value whole.
    #[test]
    fn threads_agree_on_a_value() {
        for _ in 0..if cfg!(miri) { 5 } else { 200 } {
            let (once, together) = (Once::new(), Barrier::new(3));
            let values = std::thread::scope(|scope| {
                let agree = |own: usize| {
                    let (once, together) = (&once, &together);
                    scope.spawn(move || {
                        together.wait();
                        *once.get_or_set([own; 32])
                    })
                };
                [1, 2, 3].map(agree).map(|thread| thread.join().expect("it ends"))
            });
            assert!(values[0] != [0; 32] && values.iter().all(|value| *value == values[0]));
            assert_eq!(values[0], [values[0][0]; 32]);
        }
    }
}
