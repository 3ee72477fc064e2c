//! Which lists threads leave, which threads take them, and when their blocks go back.

use core::mem::MaybeUninit;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::super::{current, idle, registry};
use super::chain::LOOKED;
use super::*;
#[cfg(target_os = "linux")]
use crate::global::Hardening;
use crate::global::Pagewise;
use crate::global::native::base::visit::Visit;
use crate::global::native::heaps::pool;
#[cfg(target_os = "linux")]
use crate::global::tuning::Tuning;
use crate::os::alone;

const PAGEWISE: Pagewise = Pagewise::new();

/// Bytes are counted as long as they fit, to the byte.
#[test]
fn bytes_are_reserved_up_to_a_bound() {
    let counted = AtomicUsize::new(0);
    let reserved = [(60, true), (41, false), (40, true), (1, false), (0, true)];
    for (bytes, fits) in reserved {
        assert_eq!(reserve(&counted, bytes, 100), fits, "{bytes}");
    }
    assert_eq!(counted.load(Relaxed), 100);
}

/// Returns lists that no thread ever had, without blocks.
fn heads(count: usize) -> Vec<NonNull<Lists>> {
    let mut heads: Vec<MaybeUninit<Lists>> = Vec::with_capacity(count);
    heads.resize_with(count, MaybeUninit::zeroed);
    heads.leak().iter_mut().map(|head| NonNull::from(head).cast()).collect()
}

/// What lists without a thread have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Has {
    Blocks,
    Memory,
    Nothing,
}

/// The expected contents of [`Ended`]: lists in the order in which they were left, with the time
/// and what they have.
#[derive(Default)]
struct Model {
    left: Vec<(NonNull<Lists>, u32, Has)>,
}

impl Model {
    /// Leaves some lists at a time, as [`leave`] and [`put_back`] do.
    fn leave(&mut self, ended: &mut Ended, some: &[(NonNull<Lists>, u32, Has)]) {
        let mut last = ptr::null_mut();
        for &(lists, since, has) in some {
            waiting(lists).since.store(since, Relaxed);
            waiting(lists).bytes.store(if has == Has::Blocks { 100 } else { 0 }, Relaxed);
            waiting(lists).has_memory.store(has != Has::Nothing, Relaxed);
            waiting(lists).next.store(last, Relaxed);
            last = lists.as_ptr();
        }
        ended.know(last);
        self.left.extend_from_slice(some);
    }

    fn take(&mut self, at: usize) -> NonNull<Lists> {
        self.left.remove(at).0
    }

    /// Yields those that have this, the last first.
    fn newest(&self, has: Has) -> impl Iterator<Item = usize> {
        (0..self.left.len()).rev().filter(move |&at| self.left[at].2 == has)
    }

    fn suiting(&mut self, suits: impl Fn(NonNull<Lists>) -> bool) -> Option<NonNull<Lists>> {
        let suit = self.newest(Has::Blocks).take(LOOKS).find(|&at| suits(self.left[at].0));
        let others = [Has::Memory, Has::Nothing, Has::Blocks];
        let any = suit.or_else(|| others.iter().find_map(|&has| self.newest(has).next()));
        any.map(|at| self.take(at))
    }

    fn idle(&mut self, now: u32, delay: u32) -> Option<NonNull<Lists>> {
        let is_due = |&at: &usize| now.wrapping_sub(self.left[at].1) >= delay;
        let oldest = |has| self.newest(has).last().filter(is_due);
        let taken = oldest(Has::Blocks).or_else(|| oldest(Has::Memory))?;
        Some(self.take(taken))
    }
}

/// Lists are left and taken in any order: suiting ones among the last few with blocks, and idle
/// ones from the oldest on, each once. Also where the clock wraps.
#[test]
fn lists_are_taken_as_the_model_has_them() {
    const ALL: [Has; 4] = [Has::Blocks, Has::Blocks, Has::Memory, Has::Nothing];
    let mut random = 5_u64;
    let mut below = |most: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % most
    };
    let (mut ended, mut model) = (Ended::new(), Model::default());
    let mut spare = heads(60);
    let mut now = u32::MAX - 3_000;
    for _ in 0..20_000 {
        now = now.wrapping_add(below(4) as u32);
        let taken = match below(4) {
            0 => {
                let some = spare.len().min(below(6));
                let some: Vec<_> =
                    (spare.drain(..some)).map(|lists| (lists, now, ALL[below(4)])).collect();
                model.leave(&mut ended, &some);
                continue;
            }
            1 => {
                // None, all, or some.
                let one_in = below(4);
                let suits = |lists: NonNull<Lists>| {
                    (lists.addr().get() / size_of::<Lists>()).checked_rem(one_in) == Some(0)
                };
                let taken = ended.take_known(suits);
                assert_eq!(taken, model.suiting(suits));
                taken
            }
            _ => {
                let delay = below(60) as u32;
                let taken = ended.take_known_idle(now, delay);
                assert_eq!(taken, model.idle(now, delay));
                taken
            }
        };
        spare.extend(taken);
        assert_eq!(spare.len() + model.left.len(), 60);
        let chains = [&ended.with_blocks, &ended.empty, &ended.bare];
        for (chain, has) in chains.into_iter().zip(&ALL[1..]) {
            let expected: Vec<_> = model.newest(*has).map(|at| model.left[at].0).collect();
            assert!(chain.iter().eq(expected.iter().copied()));
            assert_eq!(chain.first(), expected.last().copied());
        }
    }
}

/// Taking idle lists looks at few others, as it happens under the registry's lock.
#[test]
fn all_idle_lists_are_taken_in_as_many_steps_as_there_are() {
    for (count, idle) in [(500, 500), (1_000, 1_000), (1_000, 300), (1_000, 0)] {
        let (mut ended, mut model) = (Ended::new(), Model::default());
        let all: Vec<_> = (heads(count).into_iter().enumerate())
            .map(|(at, lists)| (lists, if at < idle { 5 } else { 6 }, Has::Blocks))
            .chain(heads(count).into_iter().map(|lists| (lists, 5, Has::Nothing)))
            .collect();
        let looked = || LOOKED.replace(0);
        model.leave(&mut ended, &all);
        looked();
        let taken = core::iter::from_fn(|| ended.take_known_idle(105, 100)).count();
        let looked = looked();
        assert_eq!(taken, idle);
        assert!(looked <= 8 * (idle + 1), "{looked} lists were looked at to take {idle}");
        assert!(
            (ended.with_blocks.iter().count(), ended.bare.iter().count()) == (count - idle, count)
        );
    }
}

/// Returns the slot that a new thread's small blocks come from, and the bytes on its lists.
fn serve(blocks: usize) -> (usize, usize) {
    let thread = std::thread::spawn(move || {
        let before = quick::of_face(current::lists());
        assert!(quick::is_none(before), "it has no lists yet");
        let mut all: Vec<_> = (0..blocks).map(|_| PAGEWISE.allocate(500)).collect();
        all.push(PAGEWISE.allocate(1));
        let bytes = quick::all_kept(quick::of_face(current::lists())).bytes;
        // SAFETY: lists are never freed.
        let heap = unsafe { &*quick::of_face(current::lists()) }.heap();
        // SAFETY: they are freed once.
        all.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
        (heap.slot(), bytes)
    });
    thread.join().expect("it ends")
}

fn bytes() -> usize {
    BYTES.load(Relaxed)
}

/// A thread begins with the blocks that another one left, and with its heap. They go back after a
/// while, when all memory must go back, and in the child of a fork. Their total is bounded for many
/// threads.
#[test]
fn a_thread_begins_with_the_blocks_of_one_that_ended() {
    alone::passes("global::native::lists::ended::tests::begins");
}

#[test]
#[ignore = "of the whole process"]
fn begins() {
    let put_back = |delay| registry::put_back_of_ended(delay, &mut Visit::unbounded());
    let (slot, _) = serve(60);
    let left = bytes();
    assert!(left > 20 * 500, "{left} bytes are left");
    // All that were left, except for the batch of the first block.
    let (again, found) = serve(0);
    assert_eq!(again, slot);
    assert!(found > 20 * 500, "{found} bytes are found");
    assert!(bytes() > 20 * 500 && !put_back(1 << 30), "it is not long ago");
    assert!(put_back(0) && bytes() == 0 && !have_memory());
    assert!(!put_back(0));
    assert!(serve(0).1 < 20 * 500, "nothing was left");

    serve(60);
    assert!(idle::put_back_all() && bytes() == 0);
    serve(60);
    PAGEWISE.purge();
    assert_eq!(bytes(), 0);

    serve(60);
    let begin = Instant::now();
    while have_memory() {
        assert!(begin.elapsed() < Duration::from_secs(60), "they stay");
        std::thread::sleep(Duration::from_millis(50));
        PAGEWISE.maintain();
    }

    let most = pool::shared() * MOST;
    let threads = 2 * most / (256 << 10);
    let all_have = Barrier::new(threads);
    let serve_all = || {
        let size = |index: usize| 500 + index % 10 * 50;
        let blocks: Vec<_> = (0..600).map(|index| PAGEWISE.allocate(size(index))).collect();
        all_have.wait();
        // SAFETY: they are freed once.
        blocks.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(serve_all))));
    // Their last destructors may run after the scope.
    let begin = Instant::now();
    while bytes() < most / 2 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} of {most}", bytes());
        std::thread::yield_now();
    }
    assert!(bytes() <= most, "{} of {most}", bytes());

    #[cfg(unix)]
    assert!(alone::in_child(|| {
        adopt();
        bytes() == 0
    }));
}

/// The memory of an ended thread's lists goes back with their blocks, after the purge delay.
#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "memory that went back counts as resident there")]
fn the_memory_of_ended_lists_goes_back() {
    alone::passes("global::native::lists::ended::tests::places_later");
    alone::passes("global::native::lists::ended::tests::places_at_once");
    alone::passes("global::native::lists::ended::tests::places_on_purpose");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own"]
fn places_later() {
    let put_back = || registry::put_back_of_ended(0, &mut Visit::unbounded());
    for has_blocks in [true, false, true] {
        serve(60);
        let lists = ended_lists();
        assert!(resident_places(lists) > 0, "the next thread finds its blocks");
        if !has_blocks {
            // As where there are too many blocks.
            // SAFETY: no thread has the lists.
            unsafe { quick::flush_all(lists.as_ptr(), Upkeep::Never) };
            waiting(lists).bytes.store(0, Relaxed);
        }
        push(lists);
        assert!(have_memory() && put_back() && !have_memory() && !put_back());
        assert_eq!(resident_places(lists), 0);
    }
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own"]
fn places_at_once() {
    registry::tuning(&Tuning::new().purge_delay(0));
    serve(60);
    assert_eq!(resident_places(ended_lists()), 0);
    assert!(!have_memory());
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn places_on_purpose() {
    registry::tuning(&Tuning::new().hardening(Hardening::ON));
    serve(60);
    push(ended_lists());
    assert!(have_memory());
    PAGEWISE.purge();
    assert!(!have_memory());
}

/// Takes the lists that the last thread left, once it has.
#[cfg(target_os = "linux")]
fn ended_lists() -> NonNull<Lists> {
    let begin = Instant::now();
    loop {
        if let Some(lists) = registry::with_ended(|ended| ended.take(|_| true)) {
            return lists;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing is left");
        std::thread::yield_now();
    }
}

/// A thread that waits keeps no memory for the places of its lists, which serve it as before
/// afterwards; while one of them has a block, or is shut, the memory stays.
#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_waits_keeps_no_places() {
    let thread = std::thread::spawn(|| {
        let work = || {
            let sizes = (0..300).map(|at| 16 * (1 + at % 60));
            let blocks: Vec<_> = sizes.map(|size| PAGEWISE.allocate(size)).collect();
            // SAFETY: the blocks are freed once.
            blocks.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
        };
        work();
        let lists = NonNull::new(quick::of_face(current::lists())).expect("it has lists");
        assert!(resident_places(lists) > 0);
        // SAFETY: the lists are the calling thread's.
        unsafe { quick::give_back_places(lists) };
        assert!(resident_places(lists) > 0, "blocks are on them");
        for _ in 0..2 {
            work();
            assert!(quick::all_kept(lists.as_ptr()).blocks > 0);
            PAGEWISE.thread_idle();
            assert_eq!(quick::all_kept(lists.as_ptr()).blocks, 0);
            assert_eq!(resident_places(lists), 0);
        }
    });
    thread.join().expect("it passes");
}

/// Returns the bytes of resident OS pages that hold nothing but places.
#[cfg(target_os = "linux")]
fn resident_places(lists: NonNull<Lists>) -> usize {
    let (start, len) = quick::pages_of_places(lists);
    assert!(len > crate::os::page_size());
    let mut bytes = 0;
    crate::os::for_each_resident(start, len, &mut |_, len| bytes += len);
    bytes
}

/// Allocates on the slow path, as a handler may, which adopts the lists of all other threads.
#[cfg(unix)]
fn adopt() {
    // SAFETY: the block is freed once.
    unsafe { PAGEWISE.free(PAGEWISE.allocate(20_000)) };
}

/// Returns how often these lists are among those that were left.
#[cfg(unix)]
fn left(wanted: NonNull<Lists>) -> usize {
    let all = registry::all_lists().count();
    let next = || registry::with_ended(|ended| ended.take(|_| true));
    let taken: Vec<_> = core::iter::from_fn(next).take(2 * all).collect();
    taken.into_iter().filter(|&lists| lists == wanted).count()
}

/// A signal handler forks while its thread puts back blocks of other lists, begins, or ends. The
/// child goes on with the lists that the thread holds. Neither the handler nor a later allocation
/// in the child may leave these lists to the next thread.
#[cfg(unix)]
#[test]
fn lists_held_by_a_forking_thread_are_left_once() {
    alone::passes("global::native::lists::ended::tests::forks");
}

#[cfg(unix)]
#[test]
#[ignore = "in a process of its own"]
fn forks() {
    // Gives this thread lists of its own.
    adopt();
    let started = Instant::now();
    let idle = loop {
        serve(60);
        // Its last destructors may run after it was joined.
        if let Some(lists) = registry::with_ended(|ended| ended.take_idle(0)) {
            break lists;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "nothing is left");
    };
    let puts_back = || {
        adopt();
        // SAFETY: they were taken above.
        unsafe { put_back(idle) };
        left(idle) == 1 && bytes() == 0
    };
    assert!(alone::in_child(puts_back), "they are put back");
    let begins = || {
        begin(idle);
        adopt();
        left(idle) == 0
    };
    assert!(alone::in_child(begins), "they are the thread's");
    let ended = std::thread::spawn(|| {
        adopt();
        let lists = NonNull::new(quick::of_face(current::lists())).expect("it has some");
        hold(lists);
        current::set(quick::gone());
        let ends = || {
            adopt();
            // SAFETY: they are the thread's, which has given them up.
            unsafe { registry::leave(lists) };
            // SAFETY: lists are never freed.
            let threads = unsafe { lists.as_ref() }.heap().threads.load(Relaxed);
            left(lists) == 1 && threads == 0
        };
        let is_left_once = alone::in_child(ends);
        current::set(quick::face(lists));
        is_left_once
    });
    assert!(ended.join().expect("it ends"), "they are left");
}
