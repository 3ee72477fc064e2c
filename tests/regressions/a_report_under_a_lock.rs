//! Misuse was reported under the heap's lock: a handler of SIGABRT that allocated waited for that
//! lock forever.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr;

use crate::ALLOCATOR;
use crate::child::{Ended, run};

extern "C" fn allocate(_: c_int) {
    for size in (1..300_000).step_by(997) {
        drop(black_box(vec![1u8; size]));
    }
    drop(std::thread::spawn(|| drop(black_box(vec![1u8; 100]))).join());
    eprintln!("the handler has allocated");
}

/// Runs a misuse whose SIGABRT handler allocates; it must end as the handler ends it.
fn stops(test: &str) {
    let Ended { signal, err, .. } = run(test, |_| {});
    assert_eq!(signal, Some(libc::SIGABRT), "{err}");
    assert!(err.contains("pagewise: a block was"), "{err}");
    assert!(err.contains("the handler has allocated"), "{err}");
}

/// Frees a block twice, with a handler that allocates.
fn free_twice(size: usize) {
    // SAFETY: the handler may interrupt this code; the second free is the misuse.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = allocate as *const c_void as usize;
        assert_eq!(libc::sigaction(libc::SIGABRT, &action, ptr::null_mut()), 0);
        let blocks = [(); 3].map(|()| ALLOCATOR.allocate(size));
        ALLOCATOR.free(blocks[1]);
        ALLOCATOR.free(blocks[1]);
        ALLOCATOR.purge();
    }
}

macro_rules! reports {
    ($($test:ident: $alone:ident, $size:expr;)*) => {$(
        #[test]
        fn $test() {
            stops(concat!("a_report_under_a_lock::", stringify!($alone)));
        }

        #[test]
        #[ignore = "in a process of its own, which it stops"]
        fn $alone() {
            free_twice($size);
        }
    )*};
}

reports! {
    a_small_block_freed_twice_is_reported_without_a_lock: small, 100;
    a_large_block_freed_twice_is_reported_without_a_lock: large, 50_000;
}
