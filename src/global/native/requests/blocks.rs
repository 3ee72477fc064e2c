//! Blocks from heaps, and back: the slow half of every path, where no list serves, in the default
//! mode and in [hardened mode](crate::global::native::hardened).

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use super::thread;
use crate::global::native::base::lock::Wait;
use crate::global::native::base::{mode, sizes, sync};
use crate::global::native::guarded;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::heaps::state::State;
use crate::global::native::heaps::{pool, relief};
use crate::global::native::lists::quick::{self, Lists};
use crate::global::native::lists::{idle, medium, registry};
use crate::global::native::memory::purge::LARGE;
use crate::global::native::process::fork;
use crate::global::tuning::{SMALL_MAX, Tuning};

/// Returns the quick list for a request; 0 if it is not small.
pub(in crate::global::native) fn list_for(tuning: &Tuning, size: usize, align: usize) -> u32 {
    match size {
        0..=SMALL_MAX => sizes::offset_at_any(size, align, tuning.pages.page_size),
        _ => 0,
    }
}

/// Allocates a small block; refills the thread's list if it is empty.
pub(in crate::global::native) fn allocate_small(
    caller: thread::Caller,
    list: u32,
) -> Option<NonNull<u8>> {
    // SAFETY: `lists` are this thread's; the offset is from the tables.
    let is_open = |lists: &NonNull<Lists>| unsafe { !quick::is_shut(lists.as_ptr(), list) };
    let Some(lists) = caller.lists.filter(is_open) else {
        let mut block = [MaybeUninit::uninit()];
        let class = sizes::class(list);
        from_any(caller, |heap| {
            (heap.take(Wait::Always, class, list, &mut block) == 1).then_some(())
        })?;
        // SAFETY: one block was taken.
        return Some(unsafe { block[0].assume_init() });
    };
    let lists = lists.as_ptr();
    // SAFETY: `lists` are this thread's; the offset is from the tables.
    unsafe {
        quick::let_one_pass(lists);
        if let Some(block) = quick::pop(lists, list) {
            return Some(block);
        }
        let _ = fill(caller, lists, list);
        quick::let_one_pass(lists);
        quick::pop(lists, list)
    }
}

/// Fills a list of the caller's that has few blocks. `None` if there is no memory.
///
/// # Safety
/// As for [`quick::pop`].
pub(in crate::global::native) unsafe fn fill(
    caller: thread::Caller,
    lists: *mut Lists,
    list: u32,
) -> Option<()> {
    // SAFETY: `lists` are this thread's, and have a heap. That may differ from `caller.heap` by
    // now: the thread may have moved to another NUMA node.
    let caller = thread::Caller { heap: unsafe { (*lists).heap() }, ..caller };
    let fill = |heap: &'static Heap, wait| {
        // SAFETY: the caller guarantees the contract of `refill`; lists are never freed.
        unsafe { quick::refill(lists, list, heap, wait).then(|| registry::move_to(&*lists, heap)) }
    };
    let moved = relief::heap_to_move_to(caller.heap).and_then(|heap| fill(heap, Wait::Never));
    moved.or_else(|| fill(caller.heap, Wait::Never)).or_else(|| fill_elsewhere(caller, fill))
}

/// Fills a list whose heap is busy or has no memory.
#[cold]
fn fill_elsewhere(
    caller: thread::Caller,
    fill: impl Fn(&'static Heap, Wait) -> Option<()>,
) -> Option<()> {
    let other = pool::alternative_to(caller.heap);
    other
        .or_else(|| registry::open_for_busy(caller.heap))
        .and_then(|other| fill(other, Wait::Never))
        .or_else(|| from_any(caller, |heap| fill(heap, Wait::Always)))
}

/// Allocates a block that is neither small nor a mapping.
pub(in crate::global::native) fn allocate_tagged(
    caller: thread::Caller,
    layout: Layout,
) -> Option<NonNull<u8>> {
    if pool::all().len() > 1
        && let Some(block) = allocate_held(caller.heap, layout)
    {
        return Some(block);
    }
    from_any(caller, |heap| heap.take_with(|state| state.allocate(layout)))
}

/// Allocates a block that is not small from free memory of `own`, or else of a heap [near
/// it](from_near), if that may be resident; `None` if each heap would have to grow, or to take back
/// what went to the system.
fn allocate_held(own: &'static Heap, layout: Layout) -> Option<NonNull<u8>> {
    let take = |state: &mut State| state.allocate_held(layout);
    let has_room = own.free() >= layout.size();
    let of_own = has_room.then(|| own.with_relief(take)).flatten().flatten();
    of_own.or_else(|| from_near(own, layout.size(), take))
}

/// Returns what `take` gets from a heap near `own` that is not busy, and may have `size` bytes of
/// free memory that are resident. Otherwise threads that take turns at using memory would each keep
/// a peak, or have it go back and come again at each turn.
#[cold]
fn from_near<R>(
    own: &Heap,
    size: usize,
    mut take: impl FnMut(&mut State) -> Option<R>,
) -> Option<R> {
    pool::near(own)
        .filter(|other| other.free() >= size)
        .find_map(|other| other.with_relief_if(Wait::Never, &mut take).flatten())
}

/// As [`allocate_tagged`], and puts the blocks that the thread's medium list
/// [wants](medium::Run::wanted) at the same time on that list. All come from one heap.
pub(super) fn allocate_medium_run(
    caller: thread::Caller,
    layout: Layout,
    mut run: medium::Run,
) -> Option<NonNull<u8>> {
    let mut take =
        |state: &mut State| state.allocate_run(layout, 1 + run.wanted(), |block| run.add(block));
    let shared = if caller.heap.free() < layout.size() {
        from_near(caller.heap, layout.size(), |state| state.without_growth(&mut take).0)
    } else {
        None
    };
    let first = shared.or_else(|| from_any(caller, |heap| heap.take_with(&mut take)))?;
    run.put_on_list();
    Some(first)
}

/// Returns what `take` gets from the caller's heap; if that is exhausted, or its lock cannot be
/// waited for, from another heap or a new one.
#[inline]
pub(super) fn from_any<R>(
    caller: thread::Caller,
    mut take: impl FnMut(&'static Heap) -> Option<R>,
) -> Option<R> {
    take(caller.heap).or_else(|| from_others(caller.heap, take))
}

/// Returns what `take` gets from another heap than the one that refused, or from a new one.
#[cold]
fn from_others<R>(
    refused: &'static Heap,
    mut take: impl FnMut(&'static Heap) -> Option<R>,
) -> Option<R> {
    let mut others = pool::all().filter(|heap| !ptr::eq(*heap, refused));
    if let Some(taken) = others.find_map(&mut take) {
        return Some(taken);
    }
    // What lists keep is used before another heap is opened, and so are the pages that their blocks
    // keep from becoming one with the free memory beside them.
    idle::put_back_all();
    thread::flush_all();
    pool::all().for_each(|heap| _ = heap.with(State::collect));
    if let Some(taken) = pool::all().find_map(&mut take) {
        return Some(taken);
    }
    if let Some(taken) = registry::open_another().and_then(&mut take) {
        return Some(taken);
    }
    // All locks may have been held for a fork, which waits for those that this thread holds.
    if !sync::holds_a_lock(sync::token()) && fork::wait_for_end() { take(refused) } else { None }
}

/// Returns a guarded block, if the caller's next one is to be guarded, and does the other periodic
/// work that is due. `list` is the list that the block would be popped from, or 0.
pub(in crate::global::native) fn allocate_guarded_if_due(
    caller: thread::Caller,
    size: usize,
    align: usize,
    list: u32,
) -> Option<NonNull<u8>> {
    let is_popped = list > 0;
    // SAFETY: `lists` are the caller's, and never freed.
    let lists = unsafe { caller.lists?.as_ref() };
    let is_guarded = lists.do_periodic_work(is_popped, registry::follow_node);
    thread::start_background();
    if !is_guarded {
        return None;
    }
    let block = guarded::allocate(size, align)?;
    if is_popped && mode::is_profiled() {
        // Sampling counts the block, though it is not popped.
        lists.countdown.count_pop();
    }
    Some(block)
}

/// Frees a block that is neither small nor a mapping.
///
/// # Safety
/// As for [`free`](super::paths::free); the block is in a slot, and is not small.
pub(in crate::global::native) unsafe fn free_tagged(block: NonNull<u8>) {
    // SAFETY: the caller guarantees that the block is in use, and does not use it afterwards.
    unsafe {
        let heap = Heap::of(block.as_ptr());
        if heap.deallocate(block) >= LARGE {
            heap.trim(thread::flush_lists);
        }
    }
    thread::start_background();
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::global::Pagewise;
    #[cfg(unix)]
    use crate::global::native::heaps::mapping;
    use crate::global::native::lists::current;
    use crate::global::native::memory::space::SPACE;
    use crate::os::alone;

    const PAGEWISE: Pagewise = Pagewise::new();

    /// A small block comes from a list whether or not periodic work is due. The list once was
    /// filled beyond its end, or the request failed.
    #[test]
    fn a_small_block_is_allocated_whatever_is_due() {
        let work = || {
            let caller = thread::caller(&PAGEWISE.tuning).expect("there are heaps");
            let lists = caller.lists.expect("there is memory").as_ptr();
            let list = sizes::offset(100);
            // SAFETY: the lists are this thread's, the offset is from the tables, and each block is
            // freed once.
            unsafe {
                let blocks = [(); 40].map(|()| PAGEWISE.allocate(100));
                blocks.into_iter().for_each(|block| PAGEWISE.free(block));
                let kept = quick::kept(lists, list).blocks;
                assert!(kept >= 20, "{kept}");
                let blocks: Vec<_> = (0..kept + 1)
                    .map(|taken| {
                        while (*lists).countdown.count_pop() {}
                        let block = allocate_small(caller, list).expect("there is memory");
                        let is_filled = taken == kept;
                        assert!(is_filled || quick::kept(lists, list).blocks == kept - taken - 1);
                        block
                    })
                    .collect();
                blocks.into_iter().for_each(|block| PAGEWISE.free(block.as_ptr()));
            }
        };
        std::thread::spawn(work).join().expect("it ends");
    }

    /// So no copy from one block of 2 KiB or more to another starts 1 to 31 bytes behind the
    /// original, modulo 4 KiB, which is slow on some processors (`PAIR` of the page heap).
    #[test]
    fn larger_blocks_lie_at_multiples_of_32() {
        let mut live = Vec::new();
        for step in 0..6_000_usize {
            let size = match step % 4 {
                0 => 2_049 + step * 37 % 6_144,
                1 => 8_000 + step * 41 % 8_500,
                2 => 16_384 + step * 997 % 120_000,
                _ => 131_073 + step * 9_973 % 500_000,
            };
            let block = PAGEWISE.allocate(size);
            assert!(block.addr().is_multiple_of(32), "{size} bytes at {block:p}");
            live.push(block);
            if live.len() > 100 {
                // SAFETY: the block is in use, and freed once.
                unsafe { PAGEWISE.free(live.swap_remove(step * 31 % live.len())) };
            }
        }
        // SAFETY: as above.
        live.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
    }

    /// Returns whether a thread goes to another heap for its blocks, and stays there, while a test
    /// holds its heap's lock.
    fn hops() -> bool {
        let heap = registry::heap_for_test();
        let (answer, answered) = mpsc::channel();
        let hopped = heap.with(|_| {
            let thread = std::thread::spawn(move || {
                registry::heap_for_test();
                // SAFETY: the thread has lists by now, which are its own.
                let lists = unsafe { &*current::lists() };
                registry::move_to(lists, heap);
                let block = PAGEWISE.allocate(3_000);
                let moved = !ptr::eq(lists.heap(), heap) && !ptr::eq(Heap::of(block), heap);
                let _ = answer.send(moved);
                // SAFETY: the block is in use, and freed once.
                unsafe { PAGEWISE.free(block) };
            });
            (answered.recv_timeout(Duration::from_secs(2)).unwrap_or(false), thread)
        });
        // The lock cannot be taken while another test forks.
        hopped.is_some_and(|(hopped, thread)| {
            thread.join().expect("it ends");
            hopped
        })
    }

    /// What its own heap refuses a thread, any other may give it.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn other_heaps_are_asked() {
        let other = registry::heap_for_test();
        let caller = thread::caller(&Tuning::new()).expect("there are heaps");
        let mut asked = 0;
        let found = from_any(caller, |heap| {
            asked += 1;
            ptr::eq(heap, other).then_some(heap)
        });
        assert!(found.is_some_and(|heap| ptr::eq(heap, other)));
        assert!(!ptr::eq(caller.heap, other) && asked >= 2);
    }

    /// A block that is not small comes from free memory of another heap before the thread's own
    /// grows, unless the other is busy.
    #[test]
    fn tagged_blocks_come_from_other_heaps() {
        alone::passes("global::native::requests::blocks::tests::tagged_from_others");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn tagged_from_others() {
        const SIZE: usize = 128 << 10;
        registry::tuning(&Tuning::new().purge_delay(u32::MAX));
        let large = PAGEWISE.allocate(8 * SIZE);
        let other = Heap::of(large);
        // SAFETY: the block is in use, and freed once.
        unsafe { PAGEWISE.free(large) };
        // Each block is allocated by a new thread, whose heap has no free memory.
        let of_other = |size: usize| {
            let thread = std::thread::spawn(move || {
                let block = PAGEWISE.allocate(size);
                assert!(!block.is_null());
                // SAFETY: the thread has lists by now, which are its own.
                let own = unsafe { &*quick::of_face(current::lists()) }.heap();
                assert!(!ptr::eq(own, other));
                let is_of_other = ptr::eq(Heap::of(block), other);
                // SAFETY: the block is in use, and freed once.
                unsafe { PAGEWISE.free(block) };
                is_of_other
            });
            thread.join().expect("it ends")
        };
        assert!(of_other(SIZE) && of_other(7 * SIZE) && of_other(20 << 10));
        assert_eq!(other.with(|_| of_other(2 * SIZE)), Some(false), "it is busy");
        assert!(!of_other(16 * SIZE), "it has less free memory");
        assert!(!of_other(2 * SIZE), "the thread's heap has free memory by now");
    }

    /// Two threads take turns: each frees the other's blocks, and allocates as many. Their heaps
    /// hold little more than that together. (Regression: each held as much, most of which went back
    /// to the system and came again at each turn.)
    #[test]
    fn threads_that_take_turns_share() {
        for size in ["medium", "larger_small", "small"] {
            alone::passes(&format!("global::native::requests::blocks::tests::{size}_turns"));
        }
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn medium_turns() {
        take_turns::<20_000>(1_000);
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn larger_small_turns() {
        take_turns::<3_000>(7_000);
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn small_turns() {
        take_turns::<100>(200_000);
    }

    /// Has two threads take turns at `count` blocks.
    fn take_turns<const SIZE: usize>(count: usize) {
        registry::tuning(&Tuning::new().purge_delay(u32::MAX));
        let held = || {
            pool::all().filter_map(|heap| heap.with(|state| state.usage())).map(|usage| usage.held)
        };
        let thread = |from: mpsc::Receiver<Vec<usize>>, to: mpsc::Sender<Vec<usize>>| {
            std::thread::spawn(move || {
                for blocks in from {
                    for block in blocks {
                        // SAFETY: the block is in use, and freed once.
                        unsafe { PAGEWISE.free(core::ptr::with_exposed_provenance_mut(block)) };
                    }
                    let block = |_| PAGEWISE.allocate(SIZE).expose_provenance();
                    if to.send((0..count).map(block).collect()).is_err() {
                        break;
                    }
                }
            })
        };
        let ((first, of_first), (second, of_second)) = (mpsc::channel(), mpsc::channel());
        let (main, of_main) = mpsc::channel();
        let threads = [thread(of_first, main.clone()), thread(of_second, main)];
        let mut blocks = Vec::new();
        for turn in 0..20 {
            let thread = if turn % 2 == 0 { &first } else { &second };
            thread.send(blocks).expect("it waits");
            blocks = of_main.recv().expect("it allocates");
        }
        let held: usize = held().sum();
        assert!(held < count * SIZE * 3 / 2, "{held} bytes");
        drop((first, second, of_main));
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    }

    /// Trials begin behind the current block: one that is about to be popped counts as a pop but as
    /// no trial, and any other counts as neither.
    #[test]
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    fn trials_begin_behind_the_block_at_hand() {
        alone::passes("global::native::requests::blocks::tests::trials");
    }

    #[test]
    #[ignore = "in a process of its own"]
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    fn trials() {
        use crate::global::native::base::sampler;
        use crate::global::native::lists::countdown::{Due, NEVER};
        use crate::global::native::requests::thread;
        registry::heap_for_test();
        // Every trial has a point.
        sampler::begin(1);
        assert!(mode::set_profiled(true));
        for (list, pops) in [(0, 0), (1, 1), (sizes::offset(64), 1), (0, 0)] {
            let caller = thread::caller(&Tuning::new()).expect("there are heaps");
            // SAFETY: `lists` are the thread's, and never freed.
            let lists = unsafe { caller.lists.expect("it has lists").as_ref() };
            let due = [(Due::Clock, NEVER), (Due::Guarded, NEVER), (Due::Sample, 0)];
            due.into_iter().for_each(|(due, pops)| lists.countdown.set(due, pops));
            lists.countdown.arm();
            assert!(allocate_guarded_if_due(caller, 64, 16, list).is_none());
            assert_eq!((0..).find(|_| !lists.countdown.count_pop()), Some(pops), "{list}");
        }
    }

    /// Runs `action` while the calling thread holds the locks of these heaps.
    #[cfg(unix)]
    fn holding<R>(heaps: &[&'static Heap], action: &mut dyn FnMut() -> R) -> R {
        match heaps {
            [first, others @ ..] => first.with(|_| holding(others, action)).expect("it is free"),
            [] => action(),
        }
    }

    /// Runs `action` while the calling thread holds the locks of all heaps, and the registry's.
    #[cfg(unix)]
    fn holding_all<R>(mut action: impl FnMut() -> R) -> R {
        registry::heap_for_test();
        let heaps: Vec<_> = pool::all().collect();
        registry::with_opener(|_| holding(&heaps, &mut action))
    }

    /// A small block that no heap could serve is a mapping, which is freed and resized as one by a
    /// caller that knows its size. (Regression: it went onto the list of its size.)
    #[cfg(unix)]
    #[test]
    fn a_small_block_may_be_a_mapping() {
        alone::passes("global::native::requests::blocks::tests::mapped");
    }

    #[cfg(unix)]
    #[test]
    #[ignore = "in a process of its own"]
    fn mapped() {
        use std::alloc::GlobalAlloc;
        let layout = Layout::from_size_align(100, 8).expect("it is one");
        // SAFETY: the layout has bytes.
        let allocate = || unsafe { PAGEWISE.alloc(layout) };
        let blocks = holding_all(|| [(); 500].map(|()| allocate()));
        let mappings = blocks.iter().filter(|block| !SPACE.contains(**block)).count();
        assert!(mappings > 10 && mapping::usage().count == mappings);
        // SAFETY: each block is in use, has the size of its layout, and is freed once.
        unsafe {
            for mut block in blocks {
                assert!(!block.is_null());
                block.write_bytes(7, layout.size());
                let mut old = layout;
                for size in [105, 1_000, 90] {
                    block = PAGEWISE.realloc(block, old, size);
                    assert!((0..90).all(|at| block.add(at).read() == 7));
                    old = Layout::from_size_align(size, 8).expect("it is one");
                }
                PAGEWISE.dealloc(block, old);
            }
        }
        assert_eq!(mapping::usage().count, 0);
        assert!((0..500).all(|_| SPACE.contains(allocate())));
    }

    /// At the limit of the address space, a large block is made of the free memory that the process
    /// has. (Regression: blocks on quick lists kept it apart, and the request failed.) With 32 bits
    /// the heaps' addresses are reserved, which the limit counts at once.
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    #[test]
    #[cfg_attr(pagewise_portable_os, ignore = "RLIMIT_AS does not count what is reserved")]
    fn a_large_block_is_made_of_what_lists_kept() {
        alone::passes("global::native::requests::blocks::tests::at_the_limit");
    }

    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn at_the_limit() {
        registry::heap_for_test();
        let limit = libc::rlimit { rlim_cur: 400 << 20, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the process is the test's.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
        let (mut blocks, mut random) = (Vec::with_capacity(1 << 16), 7_u64);
        loop {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let block = PAGEWISE.allocate(1 + (random >> 33) as usize % 100_000);
            if block.is_null() {
                break;
            }
            blocks.push(block);
        }
        assert!((2_000..1 << 16).contains(&blocks.len()), "{}", blocks.len());
        // SAFETY: each block is in use, and freed once.
        blocks.drain(..).for_each(|block| unsafe { PAGEWISE.free(block) });
        assert!(!PAGEWISE.allocate(200 << 20).is_null());
    }

    /// In a child of the system call `clone` small blocks are mappings where all locks are lost.
    /// (Regression: null.)
    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_without_heaps_allocates() {
        alone::passes("global::native::requests::blocks::tests::bereft");
    }

    #[cfg(target_os = "linux")]
    #[test]
    #[ignore = "in a process of its own"]
    fn bereft() {
        let (held, are_held) = mpsc::channel();
        let (done, is_done) = mpsc::channel::<()>();
        registry::heap_for_test();
        let holder = std::thread::spawn(move || {
            registry::heap_for_test();
            holding_all(|| {
                held.send(()).expect("the test waits");
                let _ = is_done.recv();
            });
        });
        are_held.recv().expect("the thread has the locks");
        let mut status = 0;
        // SAFETY: without flags the call is a fork; the child only allocates, and ends.
        unsafe {
            let none = 0_usize;
            let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, none, none, none, none);
            if child == 0 {
                let is_null = (0..500).any(|_| PAGEWISE.allocate(100).is_null());
                libc::_exit(i32::from(is_null));
            }
            assert_eq!(libc::waitpid(child as libc::pid_t, &raw mut status, 0), child as i32);
        }
        assert_eq!(status, 0);
        drop(done);
        holder.join().expect("it ends");
    }

    /// Other tests may use the other heaps at some moment, but not always.
    #[test]
    fn a_thread_leaves_a_heap_that_is_in_use() {
        assert!((0..20).any(|_| hops()));
    }
}
