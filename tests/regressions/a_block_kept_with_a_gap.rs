//! In KINGSLEY an over-aligned block follows a gap. When it was kept with a layout of a smaller
//! alignment, it was resized in place as if there were no gap: to more bytes than it has.

use std::alloc::Layout;

use pagewise::catalogue;
use pagewise::pages::Config;

use crate::layout;

#[test]
fn it_is_not_resized_beyond_its_bytes() {
    for entry in catalogue::all() {
        let mut heap = entry.build(Config::with_page_size(4096), 1 << 24).expect("valid");
        for align in [32, 64, 256, 1024] {
            for size in [1, 24, 100, 600, 2_000, 5_000] {
                let wide = layout(size, align);
                let block = heap.allocate(wide).expect("room enough").cast();
                let narrow = layout(size, 1);
                // SAFETY: the block is in use with this layout.
                let Some(kept) = (unsafe { heap.keep(block, wide, narrow) }) else { continue };
                let (mut block, mut known): (_, Layout) = (kept.cast(), narrow);
                for more in [1, 7, 20, align - 16, align, 2 * align] {
                    let size = known.size() + more;
                    // SAFETY: as above.
                    let resized = unsafe { heap.reallocate(block, known, size) };
                    let resized = resized.expect("room enough");
                    assert!(resized.len() >= size, "{}: {wide:?} as {size}", entry.name);
                    (block, known) = (resized.cast(), layout(size, 1));
                }
            }
        }
        heap.audit().expect("every invariant holds");
    }
}
