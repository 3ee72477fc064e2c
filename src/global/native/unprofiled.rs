//! Stands in for `profile` where there is no profiler: without the feature, or on another system.

use crate::global::native::base::settings::Settings;
use crate::global::tuning::Tuning;

/// A type without values: no block is ever in a profile.
#[derive(Clone, Copy)]
pub(super) enum Taken {}

pub(super) fn decide_sample(_: &Tuning, _: usize, _: usize) -> bool {
    false
}

pub(super) fn add_sample(_: *mut u8, _: usize, _: usize) {}

pub(super) fn forget(_: *mut u8) {}

pub(super) fn take(_: *mut u8) -> Option<Taken> {
    None
}

pub(super) fn restore(_: *mut u8, _: Option<Taken>) {}

pub(super) fn dump_if_wanted() {}

pub(super) fn start_if_set(_: &Tuning, _: &Settings) {}

pub(super) fn take_for_fork(_: impl FnMut() -> bool) {}

pub(super) fn after_fork() {}

pub(super) fn after_fork_in_child() {}
