//! Replays the fuzzers' corpora on stable Rust: runs the body of every fuzz target on every input
//! of `fuzz/corpora/TARGET.tar.gz`.

#![cfg(target_os = "linux")]

#[path = "../fuzz/bodies/c.rs"]
mod c;
#[path = "../fuzz/bodies/distribution.rs"]
mod distribution;
#[path = "../fuzz/bodies/global.rs"]
mod global;
#[path = "harness/mod.rs"]
#[allow(dead_code, reason = "the property tests use more of it")]
mod harness;
#[path = "../fuzz/bodies/read_events.rs"]
mod read_events;
#[path = "../fuzz/bodies/read_log.rs"]
mod read_log;
#[path = "../fuzz/bodies/read_trace.rs"]
mod read_trace;
#[path = "../fuzz/bodies/rep.rs"]
mod rep;
#[path = "../fuzz/bodies/strategies.rs"]
mod strategies;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::thread;

use flate2::read::GzDecoder;
use tar::Archive;

/// Names the input if a run panics.
struct Named<'a>(&'a Path);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the input is {} in the corpus", self.0.display());
        }
    }
}

/// Runs a body on every input of its corpus.
fn replay(target: &str, body: fn(&[u8])) {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpora");
    let file = File::open(corpora.join(format!("{target}.tar.gz"))).expect("a corpus");
    let mut archive = Archive::new(GzDecoder::new(file));
    let mut inputs = 0;
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path().expect("a name").into_owned();
        let _named = Named(&path);
        let mut input = Vec::new();
        entry.read_to_end(&mut input).expect("an input");
        body(&input);
        inputs += 1;
    }
    assert!(inputs > 20, "{inputs} inputs");
}

/// Both use the global allocator, which must hold nothing after each input, so they run in
/// sequence.
#[test]
fn global_and_c() {
    replay("global", global::run);
    replay("c", c::run);
}

#[test]
fn strategies() {
    replay("strategies", strategies::run);
}

#[test]
fn read_trace() {
    replay("read_trace", read_trace::run);
}

#[test]
fn read_events() {
    replay("read_events", read_events::run);
}

#[test]
fn read_log() {
    replay("read_log", read_log::run);
}

#[test]
fn rep() {
    replay("rep", rep::run);
}

#[test]
fn distribution() {
    replay("distribution", distribution::run);
}
