//! A threaded program under the global allocator: an index of words, built in parallel.
//!
//! ```text
//! $ cargo run --release --example global_allocator -- README.md docs/*.md
//! $ PAGEWISE_SHOW_STATS=1 cargo run --release --example global_allocator -- README.md
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::channel;
use std::{env, fs, process, thread};

use pagewise::global::{Pagewise, Tuning};

/// Memory is given back to the system 200 ms after much of it was freed.
#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::with(Tuning::new().purge_delay(200));

type Lines = Vec<(String, usize)>;

/// Returns the lines where each word of a text occurs.
fn index(name: &str, text: &str) -> HashMap<String, Lines> {
    let mut found: HashMap<String, Lines> = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        for word in line.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 3) {
            found.entry(word.to_lowercase()).or_default().push((name.to_owned(), number + 1));
        }
    }
    found
}

fn main() {
    let mut names: Vec<String> = env::args().skip(1).collect();
    if names.is_empty() {
        names.push(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md").to_owned());
    }
    // A thread per file builds its index and ends; its words outlive it, are merged here, and
    // duplicates are freed here.
    let (sender, receiver) = channel();
    for name in names {
        let sender = sender.clone();
        thread::spawn(move || {
            let found = fs::read_to_string(&name).map(|text| index(&name, &text));
            let _ = sender.send(found.map_err(|error| format!("{name}: {error}")));
        });
    }
    drop(sender);

    let mut all: BTreeMap<String, Lines> = BTreeMap::new();
    for found in receiver {
        match found {
            Ok(found) => {
                found
                    .into_iter()
                    .for_each(|(word, lines)| all.entry(word).or_default().extend(lines));
            }
            Err(error) => {
                eprintln!("{error}");
                process::exit(1);
            }
        }
    }
    let mut most: Vec<_> = all.iter().map(|(word, lines)| (lines.len(), word)).collect();
    most.sort_unstable_by(|a, b| b.cmp(a));
    for (count, word) in most.iter().take(5) {
        println!("{word:>20} {count:>5}");
    }

    println!("\nwith the index:\n{}", ALLOCATOR.stats());
    drop(most);
    drop(all);
    ALLOCATOR.purge();
    println!("\nwithout it, and purged:\n{}", ALLOCATOR.stats());
}
