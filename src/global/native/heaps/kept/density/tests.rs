//! Which mappings are expected to be written all over.

use super::*;
use crate::os;

/// Bytes of a mapping; its sample is one huge page.
const LEN: usize = 4 * HUGE;

/// A thread.
const ME: u32 = 1;

/// Bytes of it before the sample.
const ADVISED: usize = 3 * HUGE;

/// Maps `len` bytes, not written, without huge pages.
fn map(len: usize) -> *mut u8 {
    let start = os::allocate(len).expect("there is memory");
    // SAFETY: the pages are the test's own.
    unsafe { os::advise_huge_pages(start, len, false) };
    start
}

/// Writes one in `step` OS pages of the memory.
fn write(start: *mut u8, len: usize, step: usize) {
    // SAFETY: the pages are the test's own.
    (0..len).step_by(step * os::page_size()).for_each(|at| unsafe { start.add(at).write(7) });
}

fn unmap(start: *mut u8, len: usize) {
    // SAFETY: the pages are the test's own, and not used after.
    unsafe { os::release(start, len) };
}

/// Mappings get huge pages, all but their ends, until that would be more than may be tried. Once a
/// sample was written all over, nearly all mappings get nothing but huge pages.
#[test]
fn mappings_get_huge_pages_until_they_are_known_to_be_sparse() {
    let mut density = MappingDensity::new(ADVISED + HUGE);
    let (first, second, third, last) = (map(LEN), map(LEN), map(LEN), map(LEN));
    assert_eq!(density.decide(first, LEN, ME), ADVISED, "nothing is known");
    assert_eq!(density.decide(second, LEN, ME), HUGE, "nothing was written yet");
    assert_eq!(density.decide(third, LEN, ME), 0, "more than may be tried");
    write(third, LEN, 1);
    assert_eq!(density.decide(last, LEN, ME), LEN);
    assert_eq!(density.unproven, 0);

    // One in some has a sample, which nobody writes, so it may be tried again.
    assert!((0..14).all(|_| density.decide(last, LEN, ME) == LEN));
    assert_eq!(density.decide(first, LEN, ME), ADVISED);
    assert_eq!(density.predictor.sample(), (first.addr() + ADVISED, HUGE));
    assert_eq!(density.decide(second, LEN, ME), ADVISED);
    assert_eq!(density.unproven, ADVISED);
    // The sample is written here and there.
    write(second.wrapping_add(ADVISED), HUGE, 3);
    assert_eq!(density.decide(first, LEN, ME), 0);
    assert_eq!(density.predictor.sample(), (first.addr(), LEN));
    write(first, LEN, 3);
    assert_eq!(density.decide(last, LEN, ME), 0, "all of the last one is the sample");
    [first, second, third, last].into_iter().for_each(|block| unmap(block, LEN));
}

/// Blocks are expected to be written all over once a sample was, up to twice the length of its
/// mapping, and until the next sample is due.
#[test]
fn blocks_are_expected_to_be_written_between_samples() {
    let mut density = MappingDensity::new(0);
    let block = map(LEN);
    assert!(!density.decide_unsampled(LEN));
    assert_eq!(density.decide(block, LEN, ME), 0, "all of it is the sample");
    write(block, LEN, 1);
    assert_eq!(density.learn(block, LEN), Some(true));
    assert!(density.decide_unsampled(2 * LEN) && !density.decide_unsampled(2 * LEN + 2));
    assert!((0..14).all(|_| density.decide_unsampled(LEN)));
    assert!((0..3).all(|_| !density.decide_unsampled(LEN)), "a sample is due");
    assert_eq!(density.decide(block, LEN, ME), ADVISED);
    assert!(density.decide_unsampled(LEN));
    unmap(block, LEN);
}

/// While another thread may be writing the sample, nothing is learned from it. After some decisions
/// it is looked at all the same.
#[test]
fn a_sample_that_another_thread_writes_is_waited_for() {
    const OTHER: u32 = 2;
    for written in [LEN, LEN / 2] {
        let mut density = MappingDensity::new(0);
        let (sample, block) = (map(LEN), map(LEN));
        assert_eq!(density.decide(sample, LEN, OTHER), 0);
        write(sample, LEN / 2, 1);
        assert!((0..AWAITED - 1).all(|_| density.decide(block, LEN, ME) == 0));
        assert_eq!(density.predictor.sample(), (sample.addr(), LEN));
        write(sample, written, 1);
        let expected = if written == LEN { LEN } else { 0 };
        assert_eq!(density.decide(block, LEN, ME), expected, "{written}");
        assert!(!density.is_sparse);
        assert_eq!(density.decide(block, LEN, ME), expected, "{written}");
        assert_eq!(density.is_sparse, written < LEN);
        [sample, block].into_iter().for_each(|block| unmap(block, LEN));
    }
}

/// Mappings of zeros get none before one was written all over.
#[test]
fn nothing_is_tried_where_nothing_may_be() {
    let mut density = MappingDensity::new(0);
    let (first, second) = (map(LEN), map(LEN));
    assert_eq!(density.decide(first, LEN, ME), 0);
    write(first, LEN, 1);
    assert_eq!(density.decide(second, LEN, ME), LEN);
    unmap(first, LEN);
    unmap(second, LEN);
}

/// A mapping more than twice as long as the last is of another kind.
#[test]
fn a_far_longer_mapping_gets_none() {
    let mut density = MappingDensity::new(0);
    let (block, long) = (map(LEN), map(2 * LEN + 2));
    density.decide(block, LEN, ME);
    write(block, LEN, 1);
    assert_eq!(density.decide(long, 2 * LEN + 1, ME), 2 * LEN + 1);
    assert_eq!(density.decide(long, 2 * LEN + 2, ME), 0);
    unmap(block, LEN);
    unmap(long, 2 * LEN + 2);
}

/// Nothing is tried with a block that is far longer than what may be tried.
#[test]
fn a_block_of_gigabytes_gets_none() {
    const TRIED: usize = 2 * HUGE;
    let block = map(4 * HUGE);
    assert_eq!(MappingDensity::new(TRIED).decide(block, 2 * TRIED + 1, ME), TRIED);
    assert_eq!(MappingDensity::new(TRIED).decide(block, 2 * TRIED + 2, ME), 0);
    unmap(block, 4 * HUGE);
}

/// A sample is looked at when its mapping goes, and no later.
#[test]
fn a_mapping_that_goes_tells_what_its_sample_was() {
    let mut density = MappingDensity::new(LEN);
    let (block, other) = (map(LEN), map(LEN));
    assert_eq!(density.decide(block, LEN, ME), ADVISED);
    write(block, LEN, 1);
    assert_eq!(density.learn(other, LEN), None, "{density:?} has it");
    assert_eq!(density.learn(block, ADVISED), None, "the sample lies behind these");
    assert_eq!((density.predictor.is_dense(), density.is_sparse), (false, false));
    assert_eq!(density.learn(block, LEN), Some(true));
    assert_eq!((density.predictor.is_dense(), density.predictor.sample()), (true, (0, 0)));
    assert_eq!(density.learn(block, LEN), None, "there is none any more");
    unmap(block, LEN);
    assert_eq!(density.decide(other, LEN, ME), LEN);
    unmap(other, LEN);
}
