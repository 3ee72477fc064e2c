//! Prints the program's answers on this machine itself, for seeds from 1 on, one a line; the
//! argument is their number.

fn main() {
    let seeds = std::env::args().nth(1).and_then(|seeds| seeds.parse().ok()).expect("a number");
    (1..=seeds).for_each(|seed| println!("{}", wasm::run(seed)));
}
