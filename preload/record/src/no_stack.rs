//! In the place of `stack` on architectures whose call stacks are not recorded.

pub(crate) use pagewise_trace::raw::record;

pub(crate) fn look(_: Option<unsafe extern "C" fn()>) {}

pub(crate) fn unloaded() {}
