//! Prints the program's results on this machine, for seeds from 1 up to the argument, one per line.

fn main() {
    let seeds = std::env::args().nth(1).and_then(|seeds| seeds.parse().ok()).expect("a number");
    (1..=seeds).for_each(|seed| println!("{}", wasm::run(seed)));
}
