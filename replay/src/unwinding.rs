//! For meters, which a strategy calls in the middle of updates: a panic must not unwind through it.

/// Runs `action`; a panic in it aborts the process after it was reported.
#[inline(always)]
pub fn end_on_panic<R>(action: impl FnOnce() -> R) -> R {
    struct Abort;
    impl Drop for Abort {
        #[cold]
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    let guard = Abort;
    let result = action();
    std::mem::forget(guard);
    result
}
