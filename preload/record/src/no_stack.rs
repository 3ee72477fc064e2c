//! Replaces `stack` on architectures where call stacks are not recorded.

use pagewise_trace::raw::{self, Record};

use crate::caller::Caller;

pub(crate) fn record(thread: u32, record: Record, _: Caller) {
    raw::record(thread, record);
}

pub(crate) fn look(_: Option<unsafe extern "C" fn()>) {}

pub(crate) fn unloaded() {}
