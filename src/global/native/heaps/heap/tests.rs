//! Tests of the figures by which heaps are maintained; each runs in a process of its own, with one
//! heap or a few.

use core::alloc::Layout;

use super::*;
use crate::global::native::heaps::background;
use crate::global::native::lists::{current, medium, quick, registry};
use crate::global::{Pagewise, Tuning};
use crate::os::alone;

const MIB: usize = 1 << 20;

/// A purge delay in milliseconds that does not end within a test.
const DELAY: u64 = 1 << 24;

/// Returns a heap with `bytes` bytes of free memory that was written.
fn with_free(bytes: usize) -> &'static Heap {
    let heap = registry::heap_for_test();
    let layout = Layout::from_size_align(bytes, 16).expect("it is one");
    let block =
        heap.with_relief(|state| state.allocate(layout)).flatten().expect("there is memory");
    // SAFETY: the block has this many bytes, and is freed once.
    unsafe {
        block.write_bytes(1, bytes);
        assert!(heap.with(|state| state.deallocate(block)).flatten().is_some());
    }
    heap
}

fn with_delay() {
    registry::tuning(&Tuning::new().purge_delay(DELAY as u32));
}

macro_rules! alone {
    ($($(#[$($doc:tt)*])* $test:ident: $alone:ident $body:block)*) => {$(
        $(#[$($doc)*])*
        #[test]
        fn $test() {
            alone::passes(concat!("global::native::heaps::heap::tests::", stringify!($alone)));
        }

        #[test]
        #[ignore = "in a process of its own"]
        fn $alone() $body
    )*};
}

alone! {
    /// About as much goes back as is wanted: up to a huge page more, because those go back whole.
    as_much_goes_back_as_is_wanted: gives {
        with_delay();
        let heap = with_free(48 * MIB);
        let free = || heap.most_resident.load(Relaxed) - heap.used.load(Relaxed);
        for wanted in [MIB, 4 * MIB, 9 * MIB] {
            let before = free();
            let given = heap.give_back(wanted, &mut Visit::unbounded(), Granularity::OsPages);
            assert!((wanted..=wanted + 3 * MIB).contains(&given), "{given} of {wanted} bytes");
            assert_eq!(before - free(), given);
        }
        let none = heap.give_back(0, &mut Visit::unbounded(), Granularity::OsPages);
        assert_eq!(none >> 20 >> 2, 0, "one step at most");
        // At most what is left goes back.
        let left = free();
        assert!(heap.give_back(1 << 30, &mut Visit::unbounded(), Granularity::OsPages) <= left);
    }

    /// Free huge pages go back soon, however many blocks in use lie before them. (Regression:
    /// a walk had to pass them, and had 100 µs for each mebibyte that another heap grew by. With 1.5
    /// GB in use in blocks of 20,000 bytes, a process grew by 125 MiB or more before it had.)
    huge_pages_behind_blocks_go_back: behind {
        if !os::DISCARDED_ARE_ZEROS {
            // Here heaps cannot tell which memory went back, and only walk.
            return;
        }
        with_delay();
        let heap = registry::heap_for_test();
        let allocate = |size| {
            let layout = Layout::from_size_align(size, 16).expect("it is one");
            heap.with(|state| state.allocate(layout)).flatten().expect("there is memory")
        };
        (0..3_000).for_each(|_| _ = allocate(20 << 10));
        let large = allocate(12 * MIB);
        // SAFETY: the block has as many bytes, and is freed once.
        unsafe {
            large.write_bytes(1, 12 * MIB);
            let freed = heap.with(|state| state.deallocate(large)).flatten();
            assert!(freed.is_some(), "it is in use");
        }
        let given = heap.give_back(2 * MIB, &mut Visit::unbounded(), Granularity::OsPages);
        assert!((2 * MIB..=4 * MIB).contains(&given), "{given} bytes");
    }

    /// A purge reports the bytes that it gave back, without those of earlier ones.
    a_purge_tells_its_bytes: purges {
        with_delay();
        let heap = with_free(24 * MIB);
        let first = heap.purge();
        assert!(first > 20 * MIB as u64, "{first}");
        assert_eq!(heap.with(|state| state.purged()), Some(first));
        assert!(heap.purge() < MIB as u64);
    }

    /// Resident are the blocks that were written, and little else. A huge page at either end may be
    /// resident as a whole.
    written_blocks_are_resident: written {
        let heap = registry::heap_for_test();
        let layout = Layout::from_size_align(16 * MIB, 16).expect("it is one");
        let block = heap.with(|state| state.allocate(layout)).flatten().expect("there is room");
        let before = heap.resident();
        assert!((1..=4 * MIB).contains(&before), "{before} bytes");
        // SAFETY: the block has this many bytes.
        unsafe { block.write_bytes(1, layout.size()) };
        let more = heap.resident() - before;
        assert!(more.abs_diff(layout.size()) <= 4 * MIB, "{more} bytes");
    }

    /// A heap says when memory is due to go back: at once while a purge is under way, and never if
    /// there is none to give back.
    a_heap_says_when_it_is_due: due {
        with_delay();
        let heap = registry::heap_for_test();
        assert_eq!(heap.due_in(), None);
        let heap = with_free(24 * MIB);
        heap.do_due_purge(&mut Visit::unbounded());
        let due = heap.due_in().expect("much is free");
        assert!(due > DELAY / 2 && due <= DELAY, "{due}");
        let pause = Pagewise::new().maintain().expect("it is to be called again").as_millis();
        assert!(pause > u128::from(DELAY / 2) && pause <= due.into(), "{pause}");
        let all = background::maintain().expect("one of the heaps has something to do");
        assert!(all > DELAY / 2 && all <= due, "{all}");
        let _ = heap.begin_purge();
        assert_eq!(heap.due_in(), Some(0));
        // This ends the purge, and begins no other.
        heap.do_due_purge(&mut Visit::unbounded());
        assert!(!heap.purging.load(Relaxed));
        assert_eq!((heap.due_in(), background::maintain()), (None, None));
        assert_eq!(Pagewise::new().maintain(), None);
    }

    /// Memory that went back as the heap grew, and was soon taken again, stays the next time.
    reused_memory_stays_the_next_time: repeats {
        with_delay();
        let heap = with_free(24 * MIB);
        let again = Layout::from_size_align(12 * MIB, 16).expect("it is one");
        assert!(heap.with(|state| state.give_back_large(8 * MIB)) == Some(true));
        if !os::DISCARDED_ARE_ZEROS {
            // Here heaps cannot tell which memory went back.
            return;
        }
        let block = heap.with(|state| state.allocate(again)).flatten().expect("there is memory");
        // SAFETY: the block is freed once.
        assert!(heap.with(|state| unsafe { state.deallocate(block) }).flatten().is_some());
        assert_eq!(heap.with(|state| state.give_back_large(8 * MIB)), Some(false));
        assert_eq!(heap.with(|state| state.give_back_large(64 * MIB)), Some(true), "another size");
    }

    /// A heap that grows far has table entries and marks for all of its blocks.
    every_block_has_its_entries: far {
        let heap = registry::heap_for_test();
        let layout = Layout::from_size_align(40 * MIB, 16).expect("it is one");
        let blocks = [(); 6].map(|()| {
            let block = heap.with(|state| state.allocate(layout)).flatten().expect("there is room");
            let last = block.as_ptr().wrapping_add(layout.size() - 1);
            assert_eq!(SPACE.list_of(block.as_ptr()), Some(0));
            // If an entry were not accessible, this would end the process.
            core::hint::black_box((SPACE.list_of(last), SPACE.mark_of(last).load(Relaxed)));
            block
        });
        for block in blocks {
            // SAFETY: the block is freed once.
            assert!(heap.with(|state| unsafe { state.deallocate(block) }).flatten().is_some());
        }
    }

    /// A purge waits until threads' lists are emptied, for up to 64 visits.
    a_purge_is_put_off_while_lists_are_emptied: put_off {
        registry::tuning(&Tuning::new().purge_delay(0));
        let heap = with_free(24 * MIB);
        // SAFETY: the lists are the thread's, and never freed.
        registry::move_to(unsafe { &*quick::of_face(current::lists()) }, heap);
        let mut visit = Visit::in_passing();
        while !visit.is_over() {}
        for visits in 1..64 {
            heap.do_due_purge(&mut visit);
            assert!(!heap.purging.load(Relaxed), "{visits}");
        }
        heap.do_due_purge(&mut visit);
        assert!(heap.purging.load(Relaxed));
    }

    /// `maintain_lists` says when there may be blocks on lists to put back.
    blocks_on_lists_are_due_to_go_back: listed {
        with_delay();
        let pagewise = Pagewise::new();
        // SAFETY: each block is freed once.
        let turn = || unsafe { pagewise.free(pagewise.allocate(40 << 10)) };
        turn();
        let next = || Heap::maintain_lists(&mut Visit::unbounded());
        assert_eq!(next(), None);
        let lists = medium::of(quick::of_face(current::lists()));
        assert!((0..9).any(|_| { turn(); lists.kept().blocks == 1 }), "a list keeps the block");
        let due = next().expect("a block lies there");
        assert!(due > DELAY / 2 && due <= DELAY, "{due}");
        assert_eq!(lists.kept().blocks, 1);
    }

    /// What an ended thread left is due to go back, though no medium block lies on a list.
    blocks_of_ended_threads_are_due_to_go_back: ended {
        with_delay();
        // SAFETY: the block is freed once.
        let turn = || unsafe { Pagewise::new().free(Pagewise::new().allocate(500)) };
        std::thread::spawn(turn).join().expect("it ends");
        let next = || Heap::maintain_lists(&mut Visit::unbounded());
        let due = next().expect("a block lies there");
        assert!(due > DELAY / 2 && due <= DELAY, "{due}");
        Pagewise::new().purge();
        assert_eq!(next(), None);
    }
}
