//! The body describes what the target checks.
#![no_main]

#[path = "../bodies/strategies.rs"]
mod body;
#[path = "../../tests/harness/mod.rs"]
#[allow(dead_code, reason = "the property tests use more of it")]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
