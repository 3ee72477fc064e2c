//! Runs unit tests of heaps, each on a heap of its own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::global::native::heaps::state::State;
use crate::global::native::lists::registry;

/// Runs a test on a heap that nothing else uses.
pub(super) fn on_a_heap(test: impl FnOnce(&mut State)) {
    let heap = registry::heap_for_test();
    let mut test = Some(test);
    let mut once = |state: &mut State| {
        let test = test.take().expect("it runs once");
        catch_unwind(AssertUnwindSafe(|| test(state)))
    };
    // While another test forks, locks are not waited for, and `with` returns `None`; so it is
    // called until it runs the test. A panic is carried out of the lock, where it would end the
    // process.
    let mut runs = core::iter::repeat_with(|| heap.with(&mut once));
    if let Some(Err(panic)) = runs.find_map(|run| run) {
        resume_unwind(panic);
    }
}
