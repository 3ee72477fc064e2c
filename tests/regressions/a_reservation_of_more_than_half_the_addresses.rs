//! With pointers of 32 bits the system may reserve more bytes than two pointers may lie apart, and memory beyond was handed out.

use pagewise::AllocError;
use pagewise::source::{Reserved, Source};

#[test]
fn ends_with_the_half() {
    let half = isize::MAX as usize;
    let mut source = Reserved::new(half + half / 8);
    assert_eq!(source.extend(half + 1, 1), Err(AllocError::Exhausted));
}
