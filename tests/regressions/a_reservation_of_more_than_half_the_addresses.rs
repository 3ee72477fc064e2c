//! On 32-bit targets the system may reserve more than `isize::MAX` bytes; the memory beyond was
//! handed out, although pointers into one allocation must not be that far apart.

use pagewise::AllocError;
use pagewise::source::{Reserved, Source};

#[test]
fn ends_at_isize_max() {
    let half = isize::MAX as usize;
    let mut source = Reserved::new(half + half / 8);
    assert_eq!(source.extend(half + 1, 1), Err(AllocError::Exhausted));
}
