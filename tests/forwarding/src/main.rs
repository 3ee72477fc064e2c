//! A program under `Pagewise` where every call is forwarded to the system's allocator.

use std::alloc::{GlobalAlloc, Layout};

use pagewise::global::{Pagewise, Stats, Tuning};

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::with(Tuning::new().purge_delay(100));

fn main() {
    let threads: Vec<_> = (1..5usize)
        .map(|thread| {
            std::thread::spawn(move || {
                let strings: Vec<String> = (0..1000).map(|n| (n * thread).to_string()).collect();
                strings.iter().map(String::len).sum::<usize>()
            })
        })
        .collect();
    let lengths: Vec<usize> = threads.into_iter().map(|t| t.join().expect("it ends")).collect();
    assert_eq!(lengths[0], 2890);

    let layout = Layout::from_size_align(5000, 4096).expect("a valid layout");
    // SAFETY: the block is as long as its layout says after each step, and freed once.
    unsafe {
        let block = ALLOCATOR.alloc_zeroed(layout);
        assert!(block.addr().is_multiple_of(4096) && *block.add(4999) == 0);
        block.write(7);
        let block = ALLOCATOR.realloc(block, layout, 50_000);
        assert!(block.addr().is_multiple_of(4096) && *block == 7);
        let layout = Layout::from_size_align(50_000, 4096).expect("a valid layout");
        ALLOCATOR.dealloc(block, layout);
    }

    ALLOCATOR.purge();
    assert_eq!(ALLOCATOR.stats(), Stats::default(), "nothing is known of what was passed on");
    println!("passed on");
}
