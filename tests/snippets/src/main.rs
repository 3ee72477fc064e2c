//! Runs the snippet.

fn main() {
    snippets::run().expect("64 KiB are enough");
}
