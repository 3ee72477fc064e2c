//! `Strategy::has_block` may be asked about any pointer. Nielsen's strategies panicked in debug
//! builds if the address was not aligned for the layout.

use std::ptr::NonNull;

use pagewise::catalogue;

use crate::layout;

#[test]
fn is_no_block() {
    for entry in catalogue::all() {
        let mut heap = entry.build(entry.config, 1 << 24).expect("there is memory");
        let block: NonNull<u8> = heap.allocate(layout(100, 8)).expect("there is memory").cast();
        for offset in -40..40 {
            let near = block.as_ptr().wrapping_offset(offset);
            for align in [1, 8, 4096, 1 << 20] {
                for size in [1, 100, 1 << 20] {
                    let near = NonNull::new(near).expect("blocks are not at address 0");
                    let found = heap.has_block(near, layout(size, align));
                    assert!(!found || offset == 0, "{} {offset}", entry.name);
                }
            }
        }
    }
}
