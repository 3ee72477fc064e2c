//! A FIRST-FIT heap that had to grow by 2³² granules or more truncated the number, and wrote
//! outside its tables.

use pagewise::catalogue::{Buddy, FirstFit};

use crate::leaked;

#[test]
fn is_refused_by_the_constructor() {
    for growth in [1 << 36, 1 << 40] {
        let made = std::panic::catch_unwind(|| FirstFit::new(16, growth, leaked(64), ()));
        assert!(made.is_err(), "{growth}");
    }
    assert!(std::panic::catch_unwind(|| FirstFit::new(1 << 60, 1 << 62, leaked(64), ())).is_err());
    assert!(std::panic::catch_unwind(|| Buddy::new(1 << 62, 1 << 30, leaked(64), ())).is_err());
}
