//! Safe functions that divided by a size, or added to one, panicked when it was 0 or huge.

use pagewise::pages::Config;
use pagewise::sizemap::{Demand, SizeMap, optimise};

const MAPS: [SizeMap; 4] = [
    SizeMap::Linear,
    SizeMap::PageFitting,
    SizeMap::Geometric { ratio: f64::INFINITY },
    SizeMap::Classes(&[0, 8, u32::MAX]),
];

#[test]
fn a_unit_of_zero_has_no_classes() {
    for sizemap in MAPS {
        assert_eq!(sizemap.classes(0, 512, 4096).count(), 0, "{sizemap:?}");
    }
    assert!(optimise(&[Demand { size: 8, live: 1.0 }], 0, 512, 4096).is_empty());
}

#[test]
fn huge_sizes_give_no_invalid_classes() {
    for sizemap in MAPS {
        let classes = sizemap.classes(usize::MAX / 2, usize::MAX, usize::MAX).take(10);
        assert!(classes.is_sorted_by(|a, b| a < b), "{sizemap:?}");
        assert!(sizemap.classes(8, usize::MAX, 4096).is_sorted_by(|a, b| a < b), "{sizemap:?}");
    }
    let demand = [Demand { size: usize::MAX, live: 1.0 }, Demand { size: 9, live: 1.0 }];
    let classes = optimise(&demand, 8, usize::MAX, usize::MAX);
    assert!(classes.iter().all(|class| class % 8 == 0), "{classes:?}");
}

#[test]
fn no_block_of_no_bytes_fits_a_page() {
    assert_eq!(Config::new().capacity(0), 0);
    assert_eq!(Config::new().capacity(1), Config::new().page_size);
}
