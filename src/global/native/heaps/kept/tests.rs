//! Which mappings are kept, for which blocks, and when they go back.

use core::ptr;

use super::runs::{NONE, RUNS};
use super::seams::SEAMS;
use super::*;
#[cfg(unix)]
use crate::global::native::lists::{idle, registry};
use crate::os::alone;

const DELAY: u32 = 60_000;

/// Returns the result of a call that took these pages.
fn taken(start: *mut u8, len: usize) -> Option<OsPageRun> {
    Some(OsPageRun { start, len })
}

fn balance(in_use: usize, most_kept: usize) -> Balance {
    Balance { in_use, most_kept }
}

/// Maps `huge_pages` huge pages behind one OS page, and writes the last byte.
fn mapping(huge_pages: usize) -> KeptRun {
    let page = os::page_size();
    let (len, all) = (huge_pages * HUGE + page, (huge_pages + 2) * HUGE);
    let memory = os::allocate(all).expect("there is memory");
    let start = memory.with_addr((memory.addr() + page).next_multiple_of(HUGE) - page);
    let end = start.wrapping_add(len);
    // SAFETY: these are the ends of a mapping that belongs to nobody else.
    unsafe {
        os::release(memory, start.addr() - memory.addr());
        os::release(end, memory.addr() + all - end.addr());
        end.sub(1).write(7);
    }
    KeptRun { start, len, since: os::now(), is_restored: true }
}

/// Returns whether the last OS page below `end` is resident.
fn is_there(end: *mut u8) -> bool {
    os::is_resident(end.wrapping_sub(1))
}

/// A mapping of which no sample was taken has none to forget: its advice stays.
#[test]
fn a_mapping_without_a_sample_has_none_to_forget() {
    let run = mapping(2);
    assert!(!forget_sample(run.start, run.len));
    // SAFETY: the mapping is the test's.
    assert!(unsafe { os::release(run.start, run.len) });
}

/// The first mapping goes back. One that is freed after another was wanted is kept, up to a limit,
/// and found by its length.
#[test]
fn a_mapping_stays_if_the_last_one_was_wanted_again() {
    alone::passes("global::native::heaps::kept::tests::wanted");
}

#[test]
#[ignore = "in a process of its own: no other test may map what goes back"]
fn wanted() {
    let page = os::page_size();
    let mut kept = Kept::new();
    let run = mapping(4);
    let end = run.start.wrapping_add(run.len);
    assert_eq!(kept.take(HUGE, DELAY), Ok(None));
    assert!(kept.take(HUGE, u32::MAX - 1) == Ok(None) && !kept.wanted, "none was freed");
    assert!(!kept.keep(run, usize::MAX, DELAY), "nobody wanted any");
    assert!(kept.take(HUGE, 0) == Ok(None) && !kept.wanted, "without a delay nobody may");
    assert_eq!(kept.take(HUGE, DELAY), Ok(None));
    assert!(!kept.keep(run, run.len - 1, DELAY), "more than may stay");
    assert!(!kept.keep(run, usize::MAX, u32::MAX), "for ever");
    assert!(kept.keep(run, run.len, DELAY));
    assert_eq!(kept.take(run.len + page, DELAY), Ok(None));

    // A block takes what it needs, and grows into the rest.
    assert_eq!(kept.take(HUGE + page, DELAY), Ok(Some(run.start)));
    assert_eq!(kept.runs.bytes(), 3 * HUGE);
    let grown = run.start.wrapping_add(HUGE + page);
    assert_eq!(kept.runs.take_at(grown.wrapping_add(page), HUGE), Ok(None));
    assert_eq!(kept.runs.take_at(grown, 3 * HUGE + page), Ok(None));
    assert_eq!(kept.runs.take_at(grown, HUGE), Ok(Some(())));
    // The rest holds one huge page behind an OS page.
    let second = run.start.wrapping_add(3 * HUGE);
    assert_eq!(kept.take(HUGE + page, DELAY), Ok(Some(second)));
    assert_eq!(kept.runs.bytes(), HUGE - page);
    assert!(is_there(end));

    // Freed again, the pieces are one run.
    assert!(kept.keep(KeptRun { start: second, len: HUGE + page, ..run }, usize::MAX, DELAY));
    assert!(kept.keep(KeptRun { len: 2 * HUGE + page, ..run }, usize::MAX, DELAY));
    assert_eq!((kept.runs.used().count(), kept.runs.bytes()), (1, run.len));
    assert_eq!(kept.give_back(1, |_| true), HUGE);
    release(kept.runs.take_gone());
    assert!(!is_there(end));
    assert_eq!(kept.give_back(usize::MAX, |_| true), run.len - HUGE);
    assert_eq!(kept.runs.used().count(), 0);
}

/// The longest run is taken, so that blocks that grow side by side have room.
#[test]
fn blocks_get_runs_of_their_own() {
    let page = os::page_size();
    let mut kept = Kept { wanted: true, ..Kept::new() };
    let runs = [mapping(3), mapping(3), mapping(2)];
    for run in runs {
        assert!(kept.keep(run, usize::MAX, DELAY));
    }
    for _ in 0..2 {
        let start = kept.take(HUGE + page, DELAY).expect("restored").expect("there is a run");
        let behind = start.wrapping_add(HUGE + page);
        assert_eq!(kept.runs.take_at(behind, 2 * HUGE), Ok(Some(())), "nobody is in the way");
        // SAFETY: it belongs to nobody else.
        unsafe { os::release(start, 3 * HUGE + page) };
    }
    assert_eq!(kept.give_back(usize::MAX, |_| true), runs[2].len);
}

/// A part of a longer block comes from the longest run, from its first huge page on.
#[test]
fn a_part_is_as_much_as_there_is() {
    let page = os::page_size();
    let mut kept = Kept { wanted: true, ..Kept::new() };
    assert_eq!(kept.runs.take_part(9 * HUGE), Ok(None));
    let runs = [mapping(1), mapping(2), mapping(3)];
    for run in runs {
        assert!(kept.keep(run, usize::MAX, DELAY));
    }
    assert_eq!(kept.runs.take_part(9 * HUGE), Ok(taken(runs[2].start, 3 * HUGE + page)));
    assert_eq!(
        kept.runs.take_part(2 * HUGE),
        Ok(taken(runs[1].start, 2 * HUGE)),
        "no more than is wanted"
    );
    assert_eq!(kept.runs.bytes(), HUGE + page, "the single page that was left went back");
    assert_eq!(kept.runs.take_part(9 * HUGE), Ok(taken(runs[0].start, HUGE + page)));
    assert_eq!(kept.runs.take_part(9 * HUGE), Ok(None));

    let late = KeptRun { start: runs[2].start.wrapping_add(page), len: 3 * HUGE, ..runs[2] };
    assert!(kept.runs.put(late));
    assert_eq!(
        kept.runs.take_part(9 * HUGE),
        Ok(taken(runs[2].start.wrapping_add(HUGE), 2 * HUGE + page))
    );
    assert_eq!(kept.runs.bytes(), HUGE - page, "what lies before stays");
    assert_eq!(kept.runs.take_part(9 * HUGE), Ok(None), "too little to begin with");
    kept.give_back(usize::MAX, |_| true);
    // SAFETY: the test took them.
    unsafe {
        os::release(runs[2].start, 3 * HUGE + page);
        os::release(runs[1].start, 2 * HUGE);
        os::release(runs[0].start, runs[0].len);
    }
}

/// A freed run is taken out once, to be restored; then blocks may take parts of it. Joined with one
/// that is not restored, it is as this one.
#[test]
fn a_run_is_restored_before_it_is_taken() {
    let page = os::page_size();
    let mut kept = Kept { wanted: true, ..Kept::new() };
    let run = mapping(4);
    let freed = KeptRun { is_restored: false, ..run };
    type Take = fn(&mut Kept, KeptRun) -> bool;
    let takes: [Take; 4] = [
        |kept, run| kept.take(HUGE, DELAY) == Err(Unrestored(run)),
        |kept, run| kept.runs.take_part(9 * HUGE) == Err(Unrestored(run)),
        |kept, run| kept.runs.take_more(HUGE) == Err(Unrestored(run)),
        |kept, run| kept.runs.take_at(run.start, HUGE) == Err(Unrestored(run)),
    ];
    for take in takes {
        assert!(kept.keep(freed, usize::MAX, DELAY) && take(&mut kept, freed));
        assert_eq!(kept.runs.used().count(), 0, "nobody else takes it meanwhile");
    }
    assert!(kept.runs.put(run));
    assert_eq!(kept.take(HUGE + page, DELAY), Ok(Some(run.start)));
    assert_eq!(kept.runs.take_at(run.start.wrapping_add(HUGE + page), HUGE), Ok(Some(())));
    let rest = KeptRun { start: run.start.wrapping_add(2 * HUGE + page), len: 2 * HUGE, ..run };
    assert_eq!(kept.runs.used().collect::<Vec<_>>(), [&rest]);

    assert!(kept.keep(KeptRun { len: 2 * HUGE + page, ..freed }, usize::MAX, DELAY));
    assert_eq!(kept.runs.take_more(9 * HUGE), Err(Unrestored(freed)));
    // SAFETY: it belongs to nobody else.
    unsafe { os::release(run.start, run.len) };
}

/// A run that cannot be restored goes back, and the next one serves.
#[cfg(target_os = "linux")]
#[cfg_attr(pagewise_portable_os, ignore = "pages are taken as they are there")]
#[test]
fn a_run_that_cannot_be_restored_goes_back() {
    alone::passes("global::native::heaps::kept::tests::unrestored");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own: the runs are those of all threads"]
fn unrestored() {
    let (shared, run) = (mapping(3), mapping(2));
    let end = shared.start.wrapping_add(shared.len);
    // SAFETY: both belong to nobody else.
    unsafe {
        let (protection, kind) = (libc::PROT_READ, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let last = end.sub(os::page_size()).cast();
        let flags = kind | libc::MAP_FIXED;
        let mapped = libc::mmap(last, os::page_size(), protection, flags, -1, 0);
        assert_eq!(mapped, last);
        put(KeptRun { is_restored: false, ..shared });
        put(KeptRun { is_restored: false, ..run });
    }
    assert_eq!(take(HUGE, DELAY), Some(run.start));
    assert_eq!(bytes(), run.len - HUGE);
    assert!(!os::is_readable(end.wrapping_sub(1)), "nothing is there");
}

/// Kept pages are in the child of a fork, whatever the program set on them: elsewhere, something
/// else would be mapped at their addresses. None are kept that the program has locked in memory,
/// which count against what it may lock. (Regression: both were undone only when pages were taken.)
#[cfg(target_os = "linux")]
#[cfg_attr(pagewise_portable_os, ignore = "pages are taken as they are there")]
#[test]
fn pages_that_would_do_harm_are_not_kept_as_they_are() {
    alone::passes("global::native::heaps::kept::tests::harmful");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own: it forks, and the runs are those of all threads"]
fn harmful() {
    // SAFETY: the callee has the same contract.
    let keep = |run: KeptRun| unsafe {
        with(|kept| kept.wanted = true).expect("nobody has the lock");
        keep(run.start, run.len, || balance(0, usize::MAX), DELAY)
    };
    let (absent, locked) = (mapping(2), mapping(2));
    // SAFETY: both belong to nobody else.
    unsafe {
        assert_eq!(libc::madvise(absent.start.cast(), absent.len, libc::MADV_DONTFORK), 0);
        assert!(keep(absent));
        assert!(alone::in_child(|| os::is_readable(absent.start)));
        // The system may refuse it.
        if libc::mlock(locked.start.cast(), os::page_size()) == 0 {
            assert!(!keep(locked));
        }
        os::release(locked.start, locked.len);
    }
    assert_eq!(bytes(), absent.len);
}

/// Behind other pages move whole huge pages of the shortest run that has any; then the end of the
/// shortest that has all that is wanted, or all of the longest.
#[test]
fn more_is_huge_pages_or_an_end() {
    alone::passes("global::native::heaps::kept::tests::more");
}

#[test]
#[ignore = "in a process of its own: the runs are those of all threads"]
fn more() {
    let page = os::page_size();
    assert_eq!((take_more(HUGE), take_more(page)), (None, None));
    let (long, short) = (mapping(5), mapping(2));
    // SAFETY: both belong to nobody else.
    unsafe {
        put_back(long.start, long.len);
        put_back(short.start, short.len);
    }
    // All but the OS pages at both ends.
    let second = short.start.wrapping_add(page);
    assert_eq!(take_more(HUGE + 3 * page), taken(second, HUGE));
    let end = short.start.wrapping_add(short.len);
    assert_eq!(take_more(3 * page), taken(end.wrapping_sub(3 * page), 3 * page));
    assert_eq!(take_more(HUGE - 3 * page), taken(second.wrapping_add(HUGE), HUGE - 3 * page));
    assert_eq!(take_more(9 * HUGE), taken(long.start.wrapping_add(page), 5 * HUGE));
    assert_eq!((take_more(HUGE), take_more(page), bytes()), (None, None, 0));

    let memory = os::allocate(9 * LEAST).expect("there is memory");
    // SAFETY: it is the test's.
    unsafe {
        put_back(memory, LEAST);
        put_back(memory.add(2 * LEAST), 2 * LEAST);
        put_back(memory.add(5 * LEAST), LEAST - page);
    }
    assert_eq!(bytes(), 3 * LEAST, "what is shorter went back");
    assert_eq!(take_more(9 * LEAST), taken(memory.wrapping_add(2 * LEAST), 2 * LEAST));
    assert_eq!(take_more(LEAST - page), taken(memory.wrapping_add(page), LEAST - page));
    assert_eq!(bytes(), page);
}

/// The nearest seam behind an address is found, as long as not too many others were noted since.
#[test]
fn seams_are_known_for_a_while() {
    let mut kept = Kept::new();
    let at = |index: usize| ptr::null_mut::<u8>().wrapping_add(index << 20);
    assert_eq!(kept.seams.until(at(1), 5 << 20), 5 << 20);
    [7, 3, 5].into_iter().for_each(|index| kept.seams.note(at(index)));
    assert_eq!(kept.seams.until(at(1), 5 << 20), 2 << 20);
    assert_eq!(kept.seams.until(at(3), 5 << 20), 2 << 20, "not the seam before the first page");
    assert_eq!(kept.seams.until(at(3), 1 << 20), 1 << 20);
    assert_eq!(kept.seams.until(at(8), 5 << 20), 5 << 20);
    (0..SEAMS - 1).for_each(|_| kept.seams.note(at(5)));
    assert_eq!(kept.seams.until(at(1), 5 << 20), 4 << 20);
}

/// Where there is no room for another run, the shortest goes back.
#[test]
fn long_runs_replace_short_ones() {
    alone::passes("global::native::heaps::kept::tests::replaced");
}

#[test]
#[ignore = "in a process of its own: no other test may map what goes back"]
fn replaced() {
    let mut kept = Kept::new();
    let short = os::allocate(LEAST).expect("there is memory");
    // SAFETY: it is the test's.
    unsafe { short.write(1) };
    assert!(kept.runs.put(KeptRun { start: short, len: LEAST, since: 0, is_restored: true }));
    // The memory of the others is not accessed.
    let at = |index: usize| ptr::null_mut::<u8>().wrapping_add(index * HUGE);
    for index in 1..RUNS {
        assert!(kept.runs.put(KeptRun {
            start: at(index),
            len: 2 * LEAST,
            since: 0,
            is_restored: true
        }));
    }
    assert!(
        !kept.runs.put(KeptRun { start: at(RUNS), len: LEAST, since: 0, is_restored: true }),
        "it is as short"
    );
    assert!(os::is_resident(short));
    assert!(kept.runs.put(KeptRun {
        start: at(RUNS),
        len: 2 * LEAST,
        since: 0,
        is_restored: true
    }));
    release(kept.runs.take_gone());
    assert!(!os::is_resident(short), "it went back");
    assert_eq!((kept.runs.used().count(), kept.runs.bytes()), (RUNS, 2 * RUNS * LEAST));
}

/// Mappings are kept up to the limits, and beyond them only for a while after one went back for
/// want of room. So a program that allocates and frees the same again and again touches new memory
/// only once in a while.
#[test]
fn as_much_stays_as_is_allowed() {
    let run = mapping(3);
    let at = |since: u64| KeptRun { since, ..run };
    let fills = MOST / run.len;
    for delay in [1, 2, DELAY] {
        let mut kept = Kept { wanted: true, ..Kept::new() };
        // The memory is not accessed: one run stands for others.
        kept.runs.entries[0] =
            KeptRun { start: ptr::null_mut(), len: fills * run.len, since: 0, is_restored: true };
        let (full, pause) = (kept.runs.bytes(), u64::from(delay).max((run.len / RATE) as u64));
        assert!(full <= MOST && full + run.len > MOST);
        kept.runs.entries[0].len = MOST - run.len;
        assert!(kept.keep(at(1000), usize::MAX, delay), "it fits to the byte");
        (kept.runs.entries[0].len, kept.runs.entries[1]) = (full, NONE);
        assert!(!kept.keep(at(1000), usize::MAX, delay), "it goes back");
        assert_eq!(kept.runs.bytes(), full);
        assert!(!kept.keep(at(1000), full + run.len - 1, delay), "more than may stay");
        assert!(kept.keep(at(1000 + pause - 1), usize::MAX, delay), "another one has just gone");
        assert_eq!(kept.runs.bytes(), full + run.len);
        kept.runs.entries[1] = NONE;
        assert!(!kept.keep(at(1000 + pause), usize::MAX, delay), "one goes from time to time");
        assert!(!kept.keep(at(1000 + pause), usize::MAX, u32::MAX));
        assert!(!kept.keep(at(1000 + pause), usize::MAX, 0), "without a delay nothing stays");
    }
    // SAFETY: it belongs to nobody else.
    unsafe { os::release(run.start, run.len) };
}

/// Runs of any length, freed and taken in any order, never overlap. None is lost except for want of
/// room.
#[test]
fn taken_runs_never_overlap() {
    let page = os::page_size();
    let mut random = 9_u64;
    let mut below = |most: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % most
    };
    let mut kept = Kept { wanted: true, ..Kept::new() };
    let mut blocks: Vec<KeptRun> = Vec::new();
    for _ in 0..4_000 {
        let len = (1 + below(8)) as usize * HUGE / 2 + page;
        if below(2) == 0
            && let Some(start) = kept.take(len, DELAY).expect("restored")
        {
            blocks.push(KeptRun { start, len, since: 0, is_restored: true });
        } else if below(3) == 0 && blocks.len() < 20 {
            blocks.push(mapping(1 + below(3) as usize));
        } else if let Some(at) = (below(blocks.len().max(1) as u64) as usize).checked_sub(1) {
            let run = blocks.swap_remove(at);
            if below(3) == 0
                && kept.runs.take_at(run.start.wrapping_add(run.len), page) == Ok(Some(()))
            {
                blocks.push(KeptRun { len: run.len + page, ..run });
            } else if !kept.keep(KeptRun { since: os::now(), ..run }, 2 * MOST, DELAY) {
                // SAFETY: it belongs to nobody else.
                unsafe { os::release(run.start, run.len) };
            }
        }
        let mut all: Vec<(usize, usize)> = (kept.runs.used().chain(&blocks))
            .map(|run| (run.start.addr(), run.start.addr() + run.len))
            .collect();
        all.sort_unstable();
        assert!(all.is_sorted_by(|one, next| one.1 <= next.0), "{all:x?}");
        assert!(
            kept.runs.bytes() <= 2 * MOST
                && kept.runs.used().all(|run| run.len.is_multiple_of(page))
        );
    }
    kept.give_back(usize::MAX, |_| true);
    // SAFETY: they belong to nobody else.
    blocks.into_iter().for_each(|run| unsafe {
        os::release(run.start, run.len);
    });
}

/// A large block that is allocated again and again gets new memory no more than twice. Zeroed
/// blocks are zeros all the same.
#[cfg(unix)]
#[test]
fn a_large_block_is_allocated_where_the_last_one_was() {
    alone::passes("global::native::heaps::kept::tests::again");
}

#[cfg(unix)]
#[test]
#[ignore = "in a process of its own"]
fn again() {
    use crate::global::Pagewise;
    const PAGEWISE: Pagewise = Pagewise::new();
    const SIZE: usize = 40 << 20;
    let mut last = None;
    for round in 0..6 {
        let block = PAGEWISE.allocate(SIZE);
        assert!(!block.is_null());
        // SAFETY: the block has this many bytes, and is freed once.
        unsafe {
            let middle = block.add(SIZE / 2);
            if round >= 2 {
                assert_eq!((Some(block), middle.read()), (last, 7), "{round}");
            }
            middle.write(7);
            PAGEWISE.free(block);
            last = Some(block);
        }
        assert_eq!(bytes() >= SIZE, round >= 1, "{round}: it is known to be wanted again");
    }
    let zeros = PAGEWISE.allocate_zeroed(SIZE);
    // SAFETY: the block has this many bytes, and is freed once.
    unsafe {
        assert_eq!(zeros.add(SIZE / 2).read(), 0);
        PAGEWISE.free(zeros);
    }
    assert!(idle::put_back_all() && bytes() == 0);
}

/// Mappings of many lengths that come and go never take more, together with the kept ones, than the
/// most that were in use.
#[cfg(unix)]
#[test]
fn no_more_is_held_than_was_in_use() {
    alone::passes("global::native::heaps::kept::tests::held");
}

#[cfg(unix)]
#[test]
#[ignore = "in a process of its own"]
fn held() {
    use crate::global::Pagewise;
    const PAGEWISE: Pagewise = Pagewise::new();
    let mut random = 3_u64;
    let mut blocks = [(ptr::null_mut(), 0); 5];
    let (mut in_use, mut most, mut stayed) = (0_usize, 0, 0);
    for round in 0..2_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (block, size) = &mut blocks[(random >> 33) as usize % 5];
        // SAFETY: they are freed once.
        unsafe { PAGEWISE.free(*block) };
        in_use -= *size;
        *size = (33 << 20) + (random >> 40) as usize % (60 << 20);
        *block = PAGEWISE.allocate(*size);
        assert!(!block.is_null());
        in_use += *size;
        most = most.max(in_use);
        stayed = stayed.max(bytes());
        // A page before each block, and the rest of its last page.
        assert!(in_use + bytes() <= most + 5 * 2 * os::page_size(), "round {round}");
    }
    assert!(stayed > 33 << 20, "some stay");
    // SAFETY: they are freed once.
    blocks.into_iter().for_each(|(block, _)| unsafe { PAGEWISE.free(block) });
}

/// As a program frees its mappings, what is kept goes back: when more was freed than is in use, 64
/// MiB at least, and again as what is in use has halved.
#[test]
fn what_is_kept_goes_back_in_a_decline() {
    let mut kept = Kept::new();
    let (mib, len) = (1 << 20, 30 << 20);
    let freed = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0].map(|left| {
        let bytes = kept.note_freed(left * len, len, DELAY);
        kept.released_bytes += bytes as u64 / 2;
        bytes / mib
    });
    // Twice what was freed, less what went back before.
    assert_eq!(freed, [0, 0, 0, 0, 300, 0, 0, 330, 0, 285]);
    // Blocks that are replaced are no decline.
    assert!((0..100).all(|_| kept.note_freed(9 * len, len, DELAY) == 0));
}

/// A thread that frees a mapping while another has the lock waits, and the mapping is kept.
#[test]
fn the_lock_is_waited_for() {
    alone::passes("global::native::heaps::kept::tests::waits");
}

#[test]
#[ignore = "in a process of its own: the runs are those of all threads"]
fn waits() {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    let run = mapping(3);
    with(|kept| kept.wanted = true);
    let (taken, is_taken) = channel();
    let holder = std::thread::spawn(move || {
        with(|_| {
            taken.send(()).expect("the test waits");
            std::thread::sleep(Duration::from_millis(100));
        })
    });
    is_taken.recv().expect("the thread is at it");
    // SAFETY: the pages were mapped, and nobody uses them.
    assert!(unsafe { keep(run.start, run.len, || balance(usize::MAX / 2, run.len), DELAY) });
    assert_eq!(holder.join().expect("it ends"), Some(()));
    assert_eq!(take(run.len, DELAY), Some(run.start));
}

#[cfg(unix)]
#[test]
fn the_child_of_a_fork_finds_what_is_kept() {
    alone::passes("global::native::heaps::kept::tests::forks");
}

/// Another thread holds the lock while this one forks: first for a moment, then for too long.
#[cfg(unix)]
#[test]
#[ignore = "in a process of its own"]
fn forks() {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    // The fork handlers are registered with the first heap.
    let _ = registry::heap_for_test();
    let run = mapping(3);
    let keep = |kept: &mut Kept| {
        kept.wanted = true;
        kept.keep(run, usize::MAX, DELAY)
    };
    assert_eq!(with(keep), Some(true));
    // Milliseconds that the lock is held, and whether the child can take the run or has forgotten
    // it.
    for (held, finds) in [(100, true), (300_000, false)] {
        let (taken, is_taken) = channel();
        let (done, is_done) = channel::<()>();
        let holder = std::thread::spawn(move || {
            with(|_| {
                taken.send(()).expect("the test waits");
                let _ = is_done.recv_timeout(Duration::from_millis(held));
            })
        });
        is_taken.recv().expect("the thread is at it");
        let is_as_expected = alone::in_child(|| {
            let found = bytes() == run.len && due_in(DELAY).is_some() && give_back(1);
            let forgotten = bytes() == 0 && due_in(DELAY).is_none() && !give_back(1);
            if finds { found } else { forgotten }
        });
        let _ = done.send(());
        assert_eq!(holder.join().expect("it ends"), Some(()));
        assert!(is_as_expected, "{held}");
    }
    assert_eq!(bytes(), run.len);
    assert!(give_back(usize::MAX) && !is_there(run.start.wrapping_add(run.len)));
}

/// One visit that is long enough gives back all runs that nobody took for a purge delay, and none
/// earlier. From then on no mapping is kept. Until then a block that grows may take one.
#[cfg(unix)]
#[test]
fn idle_runs_go_back_in_one_visit() {
    alone::passes("global::native::heaps::kept::tests::idle");
}

#[cfg(unix)]
#[test]
#[ignore = "in a process of its own"]
fn idle() {
    let run = mapping(4);
    assert_eq!(with(|kept| kept.wanted = true), Some(()));
    // SAFETY: the pages are mapped, and not used any more.
    assert!(unsafe { keep(run.start, run.len, || balance(usize::MAX / 2, run.len), DELAY) });
    give_back_idle(&mut Visit::unbounded(), DELAY);
    assert_eq!(bytes(), run.len);
    assert_eq!(with(|kept| kept.wanted), Some(true), "nothing was idle");
    let page = os::page_size();
    assert!(!take_at(run.start.wrapping_add(page), page), "nothing begins there");
    assert!(take_at(run.start, page), "a block grows into it");
    assert_eq!(bytes(), run.len - page);
    give_back_idle(&mut Visit::unbounded(), 0);
    assert_eq!(bytes(), 0);
    assert_eq!(with(|kept| kept.wanted), Some(false), "nobody took it");
    // SAFETY: the test took it.
    unsafe { os::release(run.start, page) };
}

/// A thread that looks after memory gives kept mappings back even while another thread puts back
/// the blocks of an ended one.
#[cfg(unix)]
#[test]
fn kept_runs_go_back_while_ended_lists_are_put_back() {
    alone::passes("global::native::heaps::kept::tests::others");
}

#[cfg(unix)]
#[test]
#[ignore = "in a process of its own"]
fn others() {
    use core::sync::atomic::AtomicBool;

    use crate::global::native::lists::ended;

    let heap = registry::heap_for_test();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Leaves some lists without blocks.
            std::thread::spawn(registry::heap_for_test).join().expect("it ends");
            while !is_over.load(Relaxed) {
                if let Some(lists) = registry::with_ended(|ended| ended.take(|_| true)) {
                    // SAFETY: they were taken just now.
                    unsafe { ended::put_back(lists) };
                }
            }
        });
        let mut refused = 0;
        for _ in 0..300 {
            let run = KeptRun {
                start: os::allocate(os::page_size()).expect("there is memory"),
                len: os::page_size(),
                since: 0,
                is_restored: true,
            };
            assert_eq!(with(|kept| kept.runs.put(run)), Some(true));
            heap.maintain();
            refused += usize::from(give_back(1));
            // Lets the other thread run at any moment, even on one CPU.
            std::thread::yield_now();
        }
        is_over.store(true, Relaxed);
        assert_eq!(refused, 0, "what is idle stays");
    });
}
