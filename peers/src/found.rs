//! Figures that a workload measures itself, besides time and memory.

use std::sync::Mutex;

static NOTED: Mutex<Vec<(&str, usize)>> = Mutex::new(Vec::new());

/// Records a figure.
pub(crate) fn note(name: &'static str, value: usize) {
    NOTED.lock().expect("nobody panicked").push((name, value));
}

/// Prints the recorded figures in order.
pub(crate) fn print() {
    for (name, value) in NOTED.lock().expect("nobody panicked").iter() {
        println!("{value} {name}");
    }
}
