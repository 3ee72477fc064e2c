//! Which runs are found, that nothing else goes back, and that memory which went back reads as
//! zeros.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::*;
use crate::global::native::base::sizes;
use crate::global::native::base::visit::Visit;
use crate::global::native::heaps::state::State;
use crate::global::native::memory::purge::Granularity;
use crate::global::native::memory::zero::KnownZeros;
use crate::global::native::on_a_heap::on_a_heap;

const KIB: usize = 1 << 10;

fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |bound| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as usize % bound
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 16).expect("it is one")
}

/// Only the resident OS pages go back, and their bytes are counted: by one call for many runs or
/// for each, with more runs than are collected at a time, and with some locked.
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "all memory counts as resident there")]
fn resident_runs_go_back() {
    const PAGES: usize = 300;
    on_a_heap(|state| {
        let page = os::page_size();
        let block = state.allocate(layout((PAGES + 2) * page)).expect("there is memory");
        let start = block.addr().get().next_multiple_of(page);
        let at = |index: usize| block.as_ptr().with_addr(start + index * page);
        for (room, seed) in [(1, 1), (1, 3), (5, 2), (MANY, 1), (MANY, 2), (MANY, 3)] {
            let mut random = random(seed);
            // SAFETY: the block is this test's, and nobody needs its contents.
            unsafe { os::discard(at(0), PAGES * page) };
            let mut touched: [bool; PAGES] = core::array::from_fn(|_| random(4) < seed as usize);
            let locked = random(PAGES);
            touched[locked] = true;
            for index in (0..PAGES).filter(|&index| touched[index]) {
                // SAFETY: as above.
                unsafe { at(index).write(1) };
            }
            #[cfg(target_os = "linux")]
            // SAFETY: as above. Where the system does not lock it, it goes back as usual.
            unsafe {
                libc::mlock(at(locked).cast(), page)
            };
            let mut runs = ResidentRuns::new();
            runs.room = room.min(runs.room);
            // Every other piece is left out.
            let piece = 1 + random(40);
            let mut found = 0;
            for from in (0..PAGES).step_by(2 * piece) {
                let end = start + (from + piece).min(PAGES) * page;
                let (_, zeros) = state.split();
                // SAFETY: the block counts as free; the test holds the heap's lock.
                found += unsafe { runs.find(start + from * page, end, FreeKind::InPage, zeros) };
            }
            // SAFETY: as above.
            let purged = unsafe { runs.give_back(state.split().1) };
            assert_eq!(found, purged, "what takes memory");
            let goes = |index: usize| touched[index] && (index / piece).is_multiple_of(2);
            for (index, touched) in touched.into_iter().enumerate() {
                let stays = touched && !goes(index);
                assert_eq!(os::is_resident(at(index)), stays, "page {index}, pieces of {piece}");
                // SAFETY: as above.
                let byte = unsafe { at(index).read() };
                assert!(byte == u8::from(stays) || !os::DISCARDED_ARE_ZEROS, "page {index}");
            }
            assert_eq!(purged, (0..PAGES).filter(|&index| goes(index)).count() * page);
            #[cfg(target_os = "linux")]
            // SAFETY: as above.
            unsafe {
                libc::munlock(at(0).cast(), PAGES * page)
            };
        }
        // SAFETY: it is freed once.
        assert!(unsafe { state.deallocate(block) }.is_some());
    });
}

/// Takes small blocks of the list for `size` bytes.
fn take(state: &mut State, size: usize, count: usize) -> Vec<NonNull<u8>> {
    let list = sizes::offset(size);
    let mut blocks = vec![MaybeUninit::uninit(); count];
    assert_eq!(state.take(sizes::class(list), list, &mut blocks), count, "there is memory");
    // SAFETY: all were taken.
    blocks.into_iter().map(|block| unsafe { block.assume_init() }).collect()
}

/// A block in use, its size, and what it was filled with.
struct Used(NonNull<u8>, usize, u8);

impl Used {
    fn fill(block: NonNull<u8>, size: usize, with: u8) -> Self {
        // SAFETY: the block has as many bytes.
        unsafe { block.write_bytes(with, size) };
        Self(block, size, with)
    }

    fn check(&self) {
        // SAFETY: as above.
        let bytes = unsafe { core::slice::from_raw_parts(self.0.as_ptr(), self.1) };
        let is_whole = bytes[0] == self.2 && bytes[1..] == bytes[..self.1 - 1];
        assert!(is_whole, "{} bytes at {:?}", self.1, self.0);
    }

    /// Checks a small block, and puts it back.
    fn put_back(self, state: &mut State) {
        self.check();
        // SAFETY: the block was taken here, and is put back once.
        assert_eq!(unsafe { state.put(&[self.0]) }, Ok(()));
    }

    /// Checks a block that is not small, and frees it.
    fn deallocate(self, state: &mut State) {
        self.check();
        // SAFETY: the block was allocated here, and is freed once.
        assert!(unsafe { state.deallocate(self.0) }.is_some());
    }
}

/// Blocks of all sizes come and go while walk steps give free memory back. No block in use loses a
/// byte, and memory that is known to be zeros is.
#[test]
fn blocks_keep_what_they_hold() {
    for seed in 1..4 {
        on_a_heap(|state| {
            let mut random = random(seed);
            let (mut small, mut large) = (Vec::<Used>::new(), Vec::<Used>::new());
            let before = state.purged();
            for step in 0..2500 {
                let with = step as u8;
                match random(10) {
                    0..3 => {
                        let size = [16, 32, 64, 272, 1024, 2048, 5000][random(7)];
                        let blocks = take(state, size, 1 + random(200));
                        small.extend(blocks.into_iter().map(|block| Used::fill(block, size, with)));
                    }
                    3..5 => {
                        let size = 17 * KIB + random(200 * KIB);
                        let mut known = KnownZeros::nothing();
                        let block = state
                            .allocate_known(layout(size), &mut known)
                            .expect("there is memory");
                        // SAFETY: the block is this test's.
                        unsafe { known.clear(block.as_ptr(), size) };
                        Used(block, size, 0).check();
                        large.push(Used::fill(block, size, with));
                    }
                    5..8 => {
                        // Mostly neighbours, so that pages become partly free.
                        for _ in 0..random(100 + small.len() / 4) {
                            let Some(last) = small.len().checked_sub(1) else { break };
                            small.swap_remove(last - random(last.min(200) + 1)).put_back(state);
                        }
                        for _ in 0..random(1 + large.len() / 4) {
                            large.swap_remove(random(large.len())).deallocate(state);
                        }
                    }
                    _ => {
                        // As after each call: memory in use counts as resident.
                        state.take_growth();
                        for _ in 0..random(8) {
                            state.purge_step_partial(&mut Visit::unbounded(), Granularity::OsPages);
                        }
                    }
                }
            }
            small.into_iter().for_each(|used| used.put_back(state));
            large.into_iter().for_each(|used| used.deallocate(state));
            assert!(state.purged() > before, "something went back");
        });
    }
}
