//! The README's snippet on arenas, in a crate without `std`.

#![no_std]

mod arena {
    include!(concat!(env!("OUT_DIR"), "/arena.rs"));

    pub fn run() -> Result<(), pagewise::AllocError> {
        main()
    }
}

pub use arena::run;
