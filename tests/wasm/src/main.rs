//! Runs the program of WebAssembly in an interpreter, and once more as part of this one: the answers
//! must be the same.
//!
//! ```sh
//! cargo build --lib --target wasm32-unknown-unknown
//! cargo run -- target/wasm32-unknown-unknown/debug/wasm.wasm
//! ```

use wasmi::{Engine, Linker, Module, Store};

fn main() {
    let path = std::env::args().nth(1).expect("the program's path");
    let engine = Engine::default();
    let program = std::fs::read(path).expect("the program was built");
    let module = Module::new(&engine, program).expect("the program is valid");
    let mut store = Store::new(&engine, ());
    let linker = Linker::new(&engine);
    let instance = linker.instantiate_and_start(&mut store, &module).expect("it needs nothing");
    let run = instance.get_typed_func::<u32, u32>(&store, "run").expect("it exports `run`");
    let check = instance.get_typed_func::<(), u32>(&store, "check").expect("and `check`");
    for seed in 1..=20 {
        assert_eq!(run.call(&mut store, seed).expect("no trap"), wasm::run(seed), "seed {seed}");
    }
    assert_eq!(check.call(&mut store, ()).expect("no trap"), 0, "the step that went wrong");
    println!("the same answers");
}
