//! What the program answers on this machine itself, for seeds from 1 on: as many as are asked for, one a line.

fn main() {
    let seeds = std::env::args().nth(1).and_then(|seeds| seeds.parse().ok()).expect("a number");
    (1..=seeds).for_each(|seed| println!("{}", wasm::run(seed)));
}
