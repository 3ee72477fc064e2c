//! The body describes what the target checks.
#![no_main]

#[path = "../bodies/read_events.rs"]
mod body;
#[path = "../bodies/read_trace.rs"]
#[allow(dead_code, reason = "any bytes are another target's")]
mod read_trace;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
