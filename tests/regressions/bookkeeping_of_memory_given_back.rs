//! A reservation knew that its memory was zeros, and did not write zeros where it dedicated memory.
//! But an extent may have written there before it was retracted.

use pagewise::source::{Reserved, Source};

use crate::layout;

#[test]
fn is_zeros() {
    const CAPACITY: usize = 1 << 20;
    let mut source = Reserved::new(CAPACITY);
    let extent = source.extend(CAPACITY / 2, 4096).expect("it is half of the capacity");
    // SAFETY: the extent has these bytes, and nothing else uses them.
    unsafe {
        extent.write_bytes(0xff, CAPACITY / 2);
        source.retract(CAPACITY / 2 - 100);
    }
    let bytes = CAPACITY * 3 / 4;
    let dedicated = source.dedicate(layout(bytes, 4096)).expect("it is three quarters");
    // SAFETY: the source dedicated these bytes, and nothing else uses them.
    let dedicated = unsafe { std::slice::from_raw_parts(dedicated.as_ptr(), bytes) };
    assert_eq!(dedicated.iter().position(|&byte| byte != 0), None);
    // SAFETY: the extent still has these bytes.
    let kept = unsafe { std::slice::from_raw_parts(extent.as_ptr(), 100) };
    assert!(kept.iter().all(|&byte| byte == 0xff), "nothing else was overwritten");
}
