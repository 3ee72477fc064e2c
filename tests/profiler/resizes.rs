//! A resized block counts with the bytes requested, not with its old size or its usable size.

use std::alloc::{GlobalAlloc, Layout};

use crate::sites::{block_of, figures, resized_by, resized_in_c_by};
use crate::{ALLOCATOR, passes_in_both_modes, profiler};

/// Mean bytes between samples: so few that every block below is sampled, and counts with its own
/// bytes.
const MEAN: usize = 64;

/// Blocks from quick lists, medium lists, heaps and mappings; those in the middle get extra room
/// when C grows them.
const SIZES: [usize; 8] = [5_001, 9_000, 30_001, 100_001, 200_003, 700_001, 3_000_001, 40_000_001];

#[test]
fn a_resized_block_counts_with_the_requested_size() {
    passes_in_both_modes("resizes::of_every_size");
}

#[test]
#[ignore = "in a process of its own"]
fn of_every_size() {
    const ALLOCATES: usize = 0;
    const RESIZES: usize = 1;
    profiler().start(MEAN).expect("it begins");
    for resize in [resized_by, resized_in_c_by] {
        for (size, new_size) in SIZES.into_iter().flat_map(|size| {
            [(size, size + size / 3), (size, 2 * size), (size, size / 2), (size, size / 5)]
        }) {
            let layout = Layout::from_size_align(size, 8).expect("a layout");
            let resized = resize(RESIZES, block_of(ALLOCATES, layout), layout, new_size);
            let told = figures(&profiler().snapshot().expect("there is a profile"));
            let live = |site: usize| [told[site][0], told[site][1]];
            assert_eq!(live(ALLOCATES), [0.0; 2], "{size} to {new_size}: it is not as it was");
            assert_eq!(live(RESIZES), [1.0, new_size as f64], "{size} to {new_size}");
            // SAFETY: it is in use, and freed once.
            unsafe {
                ALLOCATOR.dealloc(resized, Layout::from_size_align_unchecked(new_size, 8));
            }
        }
    }
}
