//! The body describes what the target checks.
#![no_main]

#[path = "../bodies/rep.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
