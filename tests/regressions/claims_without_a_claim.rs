//! Claims without a strategy told that memory was exhausted, where other arenas without memory tell
//! that there is none yet; and what the last claim told hid that another was exhausted.

use pagewise::arena::{Arena, Claims};
use pagewise::source::Region;
use pagewise::{AllocError, SmallHeap};

use crate::{layout, leaked};

#[test]
fn tell_that_there_is_no_memory_yet() {
    let arena: Arena<Claims<SmallHeap<Region>, 3>> = Arena::new(Claims::new());
    assert_eq!(arena.allocate(layout(8, 8)), Err(AllocError::NoRegion));
    // SAFETY: a region of 0 bytes hands out no memory.
    let nothing = || unsafe { Region::new(std::ptr::null_mut(), 0) };
    arena.claim(SmallHeap::new(nothing(), ())).expect("room for a claim");
    assert_eq!(arena.allocate(layout(8, 8)), Err(AllocError::NoRegion));
    arena.claim(SmallHeap::new(leaked(4096), ())).expect("room for a claim");
    arena.claim(SmallHeap::new(nothing(), ())).expect("room for a claim");
    assert_eq!(arena.allocate(layout(5000, 8)), Err(AllocError::Exhausted));
    assert!(arena.allocate(layout(1000, 8)).is_ok());
}
