//! Given size classes that are equal once they are rounded up to units: those behind them were
//! lost, and pages did not serve their sizes.

use pagewise::pages::Config;
use pagewise::sizemap::SizeMap;
use pagewise::{PageHeap, Region};

use crate::leaked;

const GIVEN: SizeMap = SizeMap::Classes(&[8, 12, 16, 32, 40, 48, 64]);

#[test]
fn are_classes_all_the_same() {
    let classes: Vec<usize> = GIVEN.classes(16, 64, 4096).collect();
    assert_eq!(classes, [16, 32, 48, 64]);
    assert_eq!(GIVEN.classes(16, 33, 4096).last(), Some(48));
    assert_eq!(GIVEN.classes(16, 1 << 20, 4096).last(), Some(64), "the last one given");
}

#[test]
fn are_served_by_pages() {
    let config = Config::with_page_size(4096).sizemap(GIVEN).ffcrossover(64);
    let mut heap: PageHeap<Region> = PageHeap::new(config, leaked(1 << 16), ());
    heap.open().expect("there is room");
    assert_eq!(heap.classes(), 4);
}
