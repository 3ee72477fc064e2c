//! The bits against a plain model, and what is cleared byte by byte.

use super::*;

const MIB: usize = 1 << 20;

/// The model: whether each OS page of the extent is known to be zeros.
struct Plain {
    start: usize,
    page: usize,
    known: Vec<bool>,
    reached: usize,
}

impl Plain {
    fn new(start: usize, pages: usize) -> Self {
        Self { start, page: os::page_size(), known: vec![false; pages], reached: start }
    }

    /// Returns the address of an OS page.
    fn at(&self, index: usize) -> usize {
        (self.start & !(self.page - 1)) + index * self.page
    }

    /// Sets whether the pages for which `which` returns true, given their addresses, are known to
    /// be zeros.
    fn set(&mut self, known: bool, which: impl Fn(Range<usize>) -> bool) {
        for index in 0..self.known.len() {
            if which(self.at(index)..self.at(index + 1)) {
                self.known[index] = known;
            }
        }
    }

    fn note_given_back(&mut self, memory: &Range<usize>) {
        if os::DISCARDED_ARE_ZEROS {
            self.set_known(memory);
        }
    }

    fn set_known(&mut self, memory: &Range<usize>) {
        self.set(true, |page| memory.start <= page.start && page.end <= memory.end);
    }

    fn note_used(&mut self, memory: &Range<usize>) {
        let (start, end) = (memory.start - EDGE, memory.end + EDGE);
        self.set(false, |page| page.start < end && start < page.end);
    }

    fn note_extended(&mut self, first: usize, end: usize) {
        if end > self.reached {
            let from = self.reached.max(first) + EDGE;
            self.reached = end;
            self.set_known(&(from..end - EDGE));
        }
    }

    /// Panics unless `zeros` knows the same.
    fn check(&self, zeros: &Zeros) {
        let unknown = |from: usize| (from..self.known.len()).find(|&index| !self.known[index]);
        let end = self.at(self.known.len());
        for index in 0..self.known.len() {
            let expected = unknown(index).map_or(end, |index| self.at(index));
            assert_eq!(zeros.skip(self.at(index)..end), expected, "page {index}");
            let next = self.at(index + 1);
            assert_eq!(zeros.skip(self.at(index)..next), expected.min(next), "page {index}");
            let known = what_is_told(zeros, self.at(index) + 48..next + 16);
            let bit = |page: usize| {
                let bit = known.first + page;
                known.bits[bit / BITS] >> (bit % BITS) & 1 == 1
            };
            assert_eq!(bit(0), self.known[index], "page {index}");
            assert_eq!(bit(1), self.known.get(index + 1) == Some(&true), "page {index} and one");
        }
    }
}

#[test]
fn known_zeros_agree_with_a_plain_model() {
    let mut random = 0x5eed_u64;
    let mut below = |bound: usize| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (random >> 33) as usize % bound
    };
    let mut gained = 0;
    for _ in 0..16 {
        gained += usize::from(session(&mut below));
    }
    // In many sessions the extent grows before it is forgotten.
    assert!(gained > 8, "{gained}");
}

/// Extends and uses an extent by random steps. Returns whether its new memory ever was known zeros.
fn session(below: &mut dyn FnMut(usize) -> usize) -> bool {
    // An extent does not begin at the start of an OS page.
    let start = (1_usize << if usize::BITS == 64 { 40 } else { 28 }) + 3 * 16;
    let (mut plain, mut zeros) = (Plain::new(start, 400), Zeros::new(start));
    plain.check(&zeros);
    let page = os::page_size();
    let mut gained = false;
    for step in 0..60 {
        // Mostly whole pages, or a word before or behind the end of one.
        let near = [0, 16, page - 16, page / 2];
        let from = plain.at(1 + below(280)) + near[below(4)] + EDGE;
        let to = from + [16, page - 32, page, page + 16, 65 * page, 100 * page][below(6)];
        match below(8) {
            0 | 1 => {
                let more = [48, page, 3 * page + 16, 20 * page][below(4)];
                let end = plain.reached + more;
                if end < plain.at(390) {
                    // The first block may begin in the new part.
                    let first = [start, end - 48, plain.reached + 32][below(3)];
                    zeros.note_extended(first, end);
                    plain.note_extended(first, end);
                    gained |= plain.known.contains(&true);
                }
                let before = plain.reached - 16 * below(9);
                zeros.note_extended(start, before);
                plain.note_extended(start, before);
            }
            2 if step % 8 == 0 => {
                let end = plain.reached + 16 * below(3);
                zeros.note_extended_unknown(end);
                plain.reached = end;
            }
            3 if step % 8 == 0 => {
                zeros.forget(to);
                plain.reached = plain.reached.max(to);
                plain.known.fill(false);
            }
            2..=4 if step > 20 => {
                zeros.note_given_back(from..to);
                plain.note_given_back(&(from..to));
            }
            _ => {
                zeros.note_used(from..to);
                plain.note_used(&(from..to));
            }
        }
        if step % 5 == 0 || step > 50 {
            plain.check(&zeros);
        }
    }
    gained
}

/// Returns the knowledge of this memory.
fn what_is_told(zeros: &Zeros, memory: Range<usize>) -> KnownZeros {
    let mut known = KnownZeros::nothing();
    zeros.copy_known(memory, &mut known);
    known
}

/// The bits of a block too long for the copy are known for its first part.
#[test]
fn of_a_block_too_long_the_first_part_is_known() {
    let start = 1 << 28;
    let page = os::page_size();
    let mut zeros = Zeros::new(start);
    let pages = (KNOWN + 5) * BITS;
    zeros.set_known(start..start + pages * page);
    let known = what_is_told(&zeros, start + 3 * page..start + pages * page);
    assert_eq!(known.first, 3);
    assert!(known.bits.iter().all(|&word| word == !0));
    // Behind the last word.
    let known = what_is_told(&zeros, start + 4 * pages * page..start + 5 * pages * page);
    assert!(known.bits.iter().all(|&word| word == 0));
}

/// Only words with bits of the block are copied, so that a short block costs little.
#[test]
fn of_a_short_block_few_words_are_told() {
    let (page, start) = (os::page_size(), 1 << 28);
    let mut zeros = Zeros::new(start);
    zeros.set_known(start..start + 8 * BITS * page);
    for (first, pages, words) in [(0, 1, 1), (0, BITS, 1), (1, BITS, 2), (BITS - 1, 1, 1)] {
        let block = start + first * page..start + (first + pages) * page;
        let known = what_is_told(&zeros, block);
        let copied = known.bits.iter().filter(|&&word| word == !0).count();
        assert_eq!(copied, words, "{pages} pages from {first} on");
    }
}

/// Returns memory of whole OS pages, all bytes of which are 1.
fn ones(len: usize) -> *mut u8 {
    let memory = os::allocate(len).expect("there is memory");
    // SAFETY: the memory is this long.
    unsafe { memory.write_bytes(1, len) };
    memory
}

/// A block is cleared but for the OS pages known to be zeros, and nothing around it.
#[test]
fn a_block_is_cleared_where_it_is_not_known() {
    let page = os::page_size();
    let (pages, len) = (700, 700 * page);
    let memory = ones(len);
    let mut zeros = Zeros::new(memory.addr());
    let known = |index: usize| index % 5 == 2 || (100..400).contains(&index);
    for index in (0..pages).filter(|&index| known(index)) {
        let at = memory.addr() + index * page;
        zeros.set_known(at..at + page);
    }
    for (from, to) in [(16, 32), (page, 2 * page), (2 * page, 3 * page), (48, len - 64)] {
        // SAFETY: the memory is this long, and the block is in it.
        unsafe { memory.write_bytes(1, len) };
        let block = memory.wrapping_add(from);
        let told = what_is_told(&zeros, block.addr()..memory.addr() + to);
        // SAFETY: as above.
        unsafe { told.clear(block, to - from) };
        for at in 0..len {
            // SAFETY: as above.
            let byte = unsafe { memory.add(at).read() };
            let kept = !(from..to).contains(&at) || known(at / page);
            assert_eq!(byte, u8::from(kept), "byte {at} of {from}..{to}");
        }
    }
    // SAFETY: the memory is whole, and not used any more.
    unsafe { os::release(memory, len) };
}

/// Clearing a long block makes no other part of it resident, and that reads as zeros.
#[test]
#[cfg_attr(
    any(windows, pagewise_portable_os),
    ignore = "memory that went back does not read as zeros there"
)]
fn memory_that_is_not_there_is_not_written() {
    let page = os::page_size();
    let len = 4 * MIB;
    let memory = ones(len);
    let (from, to) = (page / 2, len - page / 4);
    // SAFETY: the memory is whole, and this test's own.
    unsafe {
        assert!(os::discard(memory.wrapping_add(MIB), MIB));
        clear(memory.wrapping_add(from), to - from);
    }
    let mut there = 0;
    os::for_each_resident(memory.wrapping_add(MIB), MIB, &mut |_, len| there += len);
    assert_eq!(there, 0, "bytes take memory");
    for at in 0..len {
        // SAFETY: the memory is this long.
        let byte = unsafe { memory.add(at).read() };
        assert_eq!(byte, u8::from(!(from..to).contains(&at)), "byte {at}");
    }
    // SAFETY: the memory is whole, and not used any more.
    unsafe { os::release(memory, len) };
}

#[test]
fn a_block_is_zeros_if_every_byte_is() {
    let mut memory = Piece([0; 8]).0.repeat(6);
    let block = memory.as_mut_ptr().cast::<u8>();
    let start = NonNull::new(block.wrapping_add(block.align_offset(16))).expect("not null");
    for size in 0..300 {
        // SAFETY: the memory has as many bytes, and is this test's own.
        unsafe {
            start.add(size).write(7);
            assert!(is_zero(start, size), "{size} bytes");
            start.add(size).write(0);
            for at in 0..size {
                start.add(at).write(1 << (at % 8));
                assert!(!is_zero(start, size), "byte {at} of {size}");
                start.add(at).write(0);
            }
        }
    }
}

/// All of a long extent is known but the OS pages at its ends.
#[test]
fn a_long_extent_is_known() {
    let (page, start) = (os::page_size(), 1 << 28);
    for len in [100 * MIB, 512 * MIB] {
        let mut zeros = Zeros::new(start);
        zeros.note_extended(start, start + len);
        let last = start + len - page;
        assert_eq!(zeros.skip(start + page..last), last);
        assert_eq!((zeros.skip(start..last), zeros.skip(last..start + len)), (start, last));
    }
}

/// The bits grow to twice as many, and only when they are too few. All memory of the old ones goes
/// back. Another test's thread may get the addresses at once, so there are several tries.
#[cfg(all(target_os = "linux", not(pagewise_portable_os)))]
#[test]
fn bits_that_grow_leave_nothing_behind() {
    let page = os::page_size();
    let (start, old_len) = (1 << 28, 2 * page);
    let end = start + old_len * 8 * page;
    let goes_back = |_| {
        let mut zeros = Zeros::new(start);
        assert!(zeros.make_room(end));
        let (old, words) = (zeros.words, zeros.len);
        assert!(zeros.make_room(end) && zeros.words == old, "there is room");
        assert!(zeros.make_room(end + page));
        assert_eq!(zeros.len, 2 * words);
        os::is_free(old.cast(), old_len)
    };
    assert!((0..50).any(goes_back), "a part stays mapped");
}
