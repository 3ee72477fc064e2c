//! Figures that a workload finds itself, beside the time and memory it takes.

use std::sync::Mutex;

static NOTED: Mutex<Vec<(&str, usize)>> = Mutex::new(Vec::new());

/// Notes a figure.
pub(crate) fn note(name: &'static str, value: usize) {
    NOTED.lock().expect("nobody panicked").push((name, value));
}

/// Prints the recorded figures, in their order.
pub(crate) fn print() {
    for (name, value) in NOTED.lock().expect("nobody panicked").iter() {
        println!("{value} {name}");
    }
}
