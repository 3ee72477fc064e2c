//! Any sequence of requests to the global allocator, through its C and Rust interfaces, gives
//! blocks that are aligned, long enough and disjoint. All bytes of a block, including those beyond
//! the requested size, are written, and checked when it is resized and freed. Zeroed blocks are
//! zero. At the end nothing is in use.
//!
//! Every five bytes are a request.

use std::alloc::{GlobalAlloc, Layout};
use std::thread;

use pagewise::global::{Pagewise, Tuning};

/// Requests of 1 MiB or more get mappings: writing 16 MiB would take a fuzzer too long.
static PAGEWISE: Pagewise = Pagewise::with(Tuning::new().mapping_from(1 << 20));

/// Maximum bytes in use; requests beyond it are skipped, because a fuzzer's memory is limited.
const MOST: usize = 64 << 20;

/// A block in use.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: *mut u8,
    /// The request: for C only its size matters; Rust frees with the whole layout.
    layout: Layout,
    c: bool,
    mark: u8,
}

// SAFETY: a block may be used and freed by any thread.
unsafe impl Send for Block {}

impl Block {
    /// Returns the usable bytes of the block.
    fn len(&self) -> usize {
        // SAFETY: the block is in use.
        unsafe { PAGEWISE.usable_size(self.start) }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the block is in use and this long, and there is no other reference to its bytes
        // meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len()) }
    }

    /// Panics if the first `len` bytes have changed.
    fn check(&mut self, len: usize) {
        let mark = self.mark;
        let bytes = &self.bytes()[..len];
        // Compare the bytes with themselves shifted by one: the fuzzer need not instrument a loop
        // over megabytes.
        let same =
            bytes.first().is_none_or(|&first| first == mark && bytes[1..] == bytes[..len - 1]);
        assert!(same, "{self:?}");
    }

    fn free(mut self) {
        self.check(self.len());
        // SAFETY: the block is in use, and not used afterwards.
        unsafe {
            if self.c {
                PAGEWISE.free(self.start);
            } else {
                PAGEWISE.dealloc(self.start, self.layout);
            }
        }
    }
}

#[derive(Default)]
struct Program {
    blocks: Vec<Block>,
    mark: u8,
}

impl Program {
    /// Adds a block that was just allocated or resized: checks that its first `kept` bytes are
    /// `mark`, and overwrites all of it.
    fn enter(&mut self, start: *mut u8, layout: Layout, c: bool, kept: usize, mark: u8) {
        assert!(!start.is_null() && start.addr().is_multiple_of(layout.align()), "{layout:?}");
        let mut block = Block { start, layout, c, mark };
        assert!(block.len() >= layout.size(), "{layout:?}");
        block.check(kept);
        self.mark = self.mark.wrapping_add(1).max(1);
        block.mark = self.mark;
        let mark = block.mark;
        block.bytes().fill(mark);
        self.blocks.push(block);
    }

    fn pick(&mut self, which: u8) -> Option<Block> {
        let index = usize::from(which).checked_rem(self.blocks.len())?;
        Some(self.blocks.swap_remove(index))
    }

    fn allocate(&mut self, what: u8, layout: Layout) {
        let (size, align) = (layout.size(), layout.align());
        let c_layout = Layout::from_size_align(size, align.max(16)).unwrap();
        let plain = Layout::from_size_align(size, 16).unwrap();
        match what {
            0 => self.enter(PAGEWISE.allocate(size), plain, true, 0, 0),
            1 => self.enter(PAGEWISE.allocate_zeroed(size), plain, true, size, 0),
            2 => {
                self.enter(PAGEWISE.allocate_aligned(size, c_layout.align()), c_layout, true, 0, 0)
            }
            _ if size == 0 => {}
            3 => {
                // SAFETY: the layout has a size.
                let start = unsafe { PAGEWISE.alloc_zeroed(layout) };
                self.enter(start, layout, false, size, 0);
            }
            _ => {
                // SAFETY: the layout has a size.
                let start = unsafe { PAGEWISE.alloc(layout) };
                self.enter(start, layout, false, 0, 0);
            }
        }
    }

    fn resize(&mut self, mut block: Block, size: usize) {
        block.check(block.len());
        let Block { start, layout, c, mark } = block;
        if c {
            let kept = block.len().min(size);
            // SAFETY: the block is in use, and not used afterwards.
            let resized = unsafe { PAGEWISE.reallocate(start, size) };
            // C guarantees no larger alignment.
            let layout = Layout::from_size_align(size, 16).unwrap();
            self.enter(resized, layout, true, kept, mark);
        } else {
            let size = size.max(1);
            // SAFETY: the block is in use with this layout, and not used afterwards; the size is
            // not 0.
            let resized = unsafe { PAGEWISE.realloc(start, layout, size) };
            let kept = layout.size().min(size);
            let layout = Layout::from_size_align(size, layout.align()).unwrap();
            self.enter(resized, layout, false, kept, mark);
        }
    }

    fn perform(&mut self, &[what, which, mantissa, exponent, align]: &[u8; 5]) {
        let size =
            usize::from(mantissa) << if exponent < 240 { exponent % 10 } else { exponent % 14 };
        let in_use: usize = self.blocks.iter().map(Block::len).sum();
        // Few alignments exceed those of Rust's types.
        let log2 = if align < 192 { align % 5 } else { align % 21 };
        let layout = Layout::from_size_align(size, 1 << log2).unwrap();
        let room = in_use + size + layout.align() <= MOST;
        match what {
            0..128 if room => self.allocate(what % 8, layout),
            128..176 if room => {
                if let Some(block) = self.pick(which) {
                    self.resize(block, size);
                }
            }
            248..252 => drop(PAGEWISE.purge()),
            252.. => {
                let blocks = std::mem::take(&mut self.blocks);
                thread::spawn(move || blocks.into_iter().for_each(Block::free)).join().unwrap();
            }
            _ => {
                if let Some(block) = self.pick(which) {
                    block.free();
                }
            }
        }
    }
}

pub(crate) fn run(data: &[u8]) {
    let mut program = Program::default();
    let (requests, _) = data.as_chunks();
    requests.iter().for_each(|request| program.perform(request));
    program.blocks.drain(..).for_each(Block::free);
    let stats = PAGEWISE.stats();
    assert_eq!((stats.blocks, stats.live, stats.mappings), (0, 0, 0), "{stats}");
}
