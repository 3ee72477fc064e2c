//! A session that uses everything the allocator does, with a model of the blocks in use.

use std::hint::black_box;
use std::thread;

use pagewise::Pagewise;

use crate::calls::inside;
use crate::frugal::FRUGAL;
use crate::random::Random;

/// The default tuning, and one with more system calls.
pub(crate) static TUNINGS: [Pagewise; 2] = [Pagewise::new(), Pagewise::with(FRUGAL)];

/// Small sizes, from pages and above them; medium and large ones of most kinds; and mappings.
const SIZES: [usize; 12] =
    [0, 24, 600, 3000, 9000, 20_000, 40_000, 70_000, 300_000, 900_000, 3 << 20, 40 << 20];

const ALIGNS: [usize; 5] = [64, 4096, 1 << 14, 1 << 16, 1 << 21];

/// A block in use, marked with a byte in some places.
struct Block {
    start: *mut u8,
    len: usize,
    mark: u8,
}

// SAFETY: only the owner of the value uses the block.
unsafe impl Send for Block {}

impl Block {
    /// Returns a place in every page of the front part, which is large enough to be noticed if its
    /// memory stays resident; and some places further on.
    fn marked(&self) -> impl Iterator<Item = *mut u8> {
        const FRONT: usize = 512 << 10;
        let front = (0..self.len.min(FRONT)).step_by(4096);
        let all = (0..self.len).step_by(self.len / 7 + 1).chain(self.len.checked_sub(1));
        let start = self.start;
        front.chain(all).map(move |index| start.wrapping_add(index))
    }

    fn mark(&self) {
        // SAFETY: the places lie in the block.
        self.marked().for_each(|place| unsafe { place.write(self.mark) });
    }

    fn check(&self) {
        // SAFETY: as above; they were written.
        let intact = self.marked().all(|place| unsafe { place.read() } == self.mark);
        assert!(intact, "a block of {} bytes is intact", self.len);
    }
}

/// A running session.
pub(crate) struct Session {
    allocator: &'static Pagewise,
    blocks: Vec<Block>,
    random: Random,
    /// Number of failed requests.
    pub(crate) failed: usize,
}

impl Session {
    pub(crate) fn new(allocator: &'static Pagewise) -> Self {
        Self { allocator, blocks: Vec::new(), random: Random(0x5eed), failed: 0 }
    }

    /// Allocates, resizes and frees blocks of all kinds, in this thread and another; purges and
    /// walks.
    pub(crate) fn perform(&mut self, steps: usize) {
        for step in 0..steps {
            match self.random.below(12) {
                0..5 => self.allocate(),
                5..8 => self.resize(),
                8..11 => self.free(),
                _ => self.check_statistics(step),
            }
            if step == steps / 2 {
                self.in_another_thread();
            }
        }
        self.check_statistics(0);
    }

    /// Frees everything, here and in another thread that then ends.
    pub(crate) fn end(&mut self) {
        while !self.blocks.is_empty() {
            self.free();
        }
        inside(|| self.allocator.purge());
    }

    /// Returns the blocks in use by the allocator's count.
    pub(crate) fn blocks_in_use(&self) -> usize {
        self.allocator.stats().blocks
    }

    /// Checks that a request failed only because a call was refused, and that every block is still
    /// there.
    fn fails(&mut self, refused: bool, what: &str) {
        assert!(refused, "{what} fails though no call was refused");
        self.failed += 1;
        self.blocks.iter().for_each(Block::check);
        assert_eq!(self.blocks_in_use(), self.blocks.len(), "{what} that fails loses nothing");
    }

    fn allocate(&mut self) {
        let size = SIZES[self.random.below(SIZES.len())];
        let align = ALIGNS[self.random.below(ALIGNS.len())];
        let kind = self.random.below(4);
        let (start, refused) = inside(|| match kind {
            0 => self.allocator.allocate_aligned(size, align),
            1 => self.allocator.allocate_zeroed(size),
            _ => self.allocator.allocate(size),
        });
        if start.is_null() {
            return self.fails(refused, "an allocation");
        }
        let aligned = if kind == 0 { align } else { 16 };
        assert!(start.addr().is_multiple_of(aligned));
        let block = Block { start, len: size, mark: self.random.below(256) as u8 };
        // SAFETY: the block is in use and this long.
        let zeros = kind != 1 || block.marked().all(|place| unsafe { place.read() } == 0);
        assert!(zeros, "a zeroed block is all zeros");
        block.mark();
        self.blocks.push(block);
    }

    fn resize(&mut self) {
        if self.blocks.is_empty() {
            return;
        }
        let index = self.random.below(self.blocks.len());
        let Block { start, len, mark } = self.blocks[index];
        self.blocks[index].check();
        let new_len = match self.random.below(4) {
            0 => SIZES[self.random.below(SIZES.len())].max(1),
            1 => len / 3 + 1,
            2 => len + len / 2 + 1,
            _ => (2 * len + 1).min(64 << 20),
        };
        // SAFETY: the block is in use; the old one is used no more if another is returned.
        let (moved, refused) =
            inside(|| unsafe { self.allocator.reallocate(black_box(start), new_len) });
        if moved.is_null() {
            assert!(new_len > len, "a block that shrinks stays");
            return self.fails(refused, "a resize");
        }
        let kept = Block { start: moved, len: new_len, mark };
        // SAFETY: the first byte, and all marked ones below the lesser length, were kept.
        assert!(len == 0 || unsafe { moved.read() } == mark, "a resized block keeps its contents");
        kept.mark();
        self.blocks[index] = kept;
    }

    fn free(&mut self) {
        if self.blocks.is_empty() {
            return;
        }
        let block = self.blocks.swap_remove(self.random.below(self.blocks.len()));
        block.check();
        // SAFETY: the block is in use, and not used afterwards.
        inside(|| unsafe { self.allocator.free(block.start) });
    }

    /// Checks that the statistics agree with the model, whichever calls are refused meanwhile.
    fn check_statistics(&mut self, step: usize) {
        let (stats, _) = inside(|| self.allocator.stats());
        assert_eq!(stats.blocks, self.blocks.len(), "the blocks in use are counted");
        let requested = self.blocks.iter().map(|block| block.len).sum();
        assert!(stats.live >= requested && stats.held >= stats.live, "{stats}");
        inside(|| self.allocator.for_each_class(|class| assert!(class.blocks <= stats.blocks)));
        if step.is_multiple_of(3) {
            inside(|| self.allocator.purge());
        } else {
            inside(|| self.allocator.maintain());
        }
        if step.is_multiple_of(5) {
            inside(|| self.allocator.thread_idle());
        }
        // SAFETY: a block in use, or null.
        inside(|| unsafe { self.allocator.usable_size(std::ptr::null_mut()) });
    }

    /// Continues the session in another thread for a while; its lists stay behind.
    fn in_another_thread(&mut self) {
        struct Other(Session);
        // SAFETY: the session is moved to the thread, and back when it ends.
        unsafe impl Send for Other {}
        let mine = std::mem::replace(self, Session::new(self.allocator));
        let other = Other(mine);
        let thread = thread::spawn(move || {
            let Other(mut session) = { other };
            for _ in 0..12 {
                session.allocate();
                session.resize();
                session.allocate();
                session.free();
            }
            Other(session)
        });
        let Other(session) = thread.join().expect("the thread ends");
        *self = session;
    }
}
