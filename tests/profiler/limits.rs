//! A profile that runs out of memory drops samples, and counts them.

use std::alloc::Layout;

use crate::files::Profile;
use crate::sites::{block_of, figures};
use crate::{child, profiler};

#[test]
fn without_memory_samples_are_dropped() {
    child::passes("limits::out_of_memory");
}

/// With a limited address space the program continues, and the profile reports the dropped samples.
#[test]
#[ignore = "in a process of its own"]
fn out_of_memory() {
    profiler().start(1).expect("it begins");
    let layout = Layout::from_size_align(16, 8).expect("valid");
    let mut blocks: Vec<*mut u8> = Vec::with_capacity(1 << 20);
    let map = std::fs::read_to_string("/proc/self/statm").expect("there is a /proc");
    let pages: u64 = map.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number");
    let limit = pages * 4096 + (24 << 20);
    // SAFETY: the call only reads the structure that it is given.
    unsafe {
        let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &raw const limit), 0);
    }
    for _ in 0..400_000 {
        blocks.push(block_of(0, layout));
    }
    // There is no room for a copy of the block, but a resize to one byte more may succeed.
    for block in blocks.drain(..) {
        // SAFETY: it is in use, and freed once.
        unsafe { std::alloc::GlobalAlloc::dealloc(&crate::ALLOCATOR, block, layout) };
    }
    let snapshot = profiler().snapshot().expect("there is memory again");
    assert!(snapshot.dropped() > 1000, "{}", snapshot.dropped());
    assert_eq!(figures(&snapshot)[0][0], 0.0, "what was sampled was seen to be freed");
    // The file also gives the number of dropped samples.
    profiler().stop().expect("it ends");
    let dropped = profiler().snapshot().expect("there is one").dropped();
    let mut file = Vec::new();
    profiler().write(&mut file).expect("it is written");
    let comment = format!("{dropped} samples were dropped for lack of memory");
    assert_eq!(Profile::read(&file).comment(), Some(&*comment));
}

#[test]
fn an_interrupted_sampler_continues() {
    child::passes("limits::interrupted");
}

/// A signal handler allocates and frees at any point: samples that cannot be taken are dropped, and
/// nothing hangs.
#[test]
#[ignore = "in a process of its own"]
fn interrupted() {
    extern "C" fn handler(_: libc::c_int) {
        for size in [100, 20_000] {
            let layout = Layout::from_size_align(size, 8).expect("valid");
            let block = block_of(1, layout);
            // SAFETY: it is in use, and freed once.
            unsafe { std::alloc::GlobalAlloc::dealloc(&crate::ALLOCATOR, block, layout) };
        }
    }
    profiler().start(50).expect("it begins");
    // SAFETY: the handler may run at any time; the timer is the process's own.
    unsafe {
        libc::signal(libc::SIGALRM, handler as extern "C" fn(libc::c_int) as *const () as usize);
        let every = libc::timeval { tv_sec: 0, tv_usec: 200 };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()), 0);
    }
    let layout = Layout::from_size_align(300, 8).expect("valid");
    for _ in 0..30_000 {
        let block = block_of(0, layout);
        // SAFETY: it is in use, and freed once.
        unsafe { std::alloc::GlobalAlloc::dealloc(&crate::ALLOCATOR, block, layout) };
    }
    // SAFETY: as above.
    unsafe {
        let never: libc::itimerval = std::mem::zeroed();
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &raw const never, std::ptr::null_mut()), 0);
    }
    let snapshot = profiler().snapshot().expect("there is a profile");
    assert!(snapshot.sites().map(|site| site.samples()).sum::<u64>() > 10_000);
    assert_eq!(figures(&snapshot)[0][0], 0.0);
}
