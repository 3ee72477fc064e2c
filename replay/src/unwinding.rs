//! Aborts on a panic in a meter: a strategy calls meters in the middle of updates, so the panic
//! must not unwind through the strategy.

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
