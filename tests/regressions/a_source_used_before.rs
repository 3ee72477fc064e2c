//! If three bytes had been taken from a region, every block of a heap on it was at an odd address.
//! If a mapping had been taken, the hybrid allocator read a length that was never written.

use pagewise::PageHeap;
use pagewise::arena::Arena;
use pagewise::catalogue;
use pagewise::pages::Config;
use pagewise::source::{Region, Reserved, Source};
use pagewise::{AllocError, Strategy};

use crate::{layout, leaked};

#[test]
fn an_arena_refuses_it() {
    let mut region = leaked(1 << 16);
    region.extend(3, 1).expect("room enough");
    let arena: Arena = Arena::fixed(region);
    assert_eq!(arena.allocate(layout(2000, 8)), Err(AllocError::UsedSource));
    assert_eq!(arena.allocate(layout(20, 8)), Err(AllocError::UsedSource));
    assert_eq!(arena.audit(), Ok(()));
}

#[test]
fn strategies_refuse_it() {
    let used = || {
        let mut region = leaked(1 << 18);
        region.extend(3, 1).expect("room enough");
        region
    };
    let config = Config::with_page_size(4096);
    let strategies: [Box<dyn Strategy>; 9] = [
        Box::new(PageHeap::new(config, used(), ())),
        Box::new(catalogue::BestFit::new(4096, used(), ())),
        Box::new(catalogue::FirstFit::new(16, 4096, used(), ())),
        Box::new(catalogue::Buddy::new(16, 4096, used(), ())),
        Box::new(pagewise::catalogue::nielsen::I1::new(4096, used(), ())),
        Box::new(catalogue::Kingsley::new(4096, used(), ())),
        Box::new(catalogue::HcGen::constant(used(), ())),
        Box::new(catalogue::HeadFirst::new(4096, used(), ())),
        Box::new(catalogue::LeastFree::new(config, used(), ())),
    ];
    for mut strategy in strategies {
        for size in [20, 20_000] {
            assert_eq!(strategy.allocate(layout(size, 8)), Err(AllocError::UsedSource));
        }
        assert_eq!(strategy.audit(), Ok(()));
    }
}

#[test]
fn the_hybrid_allocator_refuses_one_with_a_mapping() {
    let mut source = Reserved::new(1 << 30);
    let mapped = source.map(layout(1 << 20, 16)).expect("the system has memory").cast();
    let mut heap = catalogue::HcGen::constant(source, ());
    assert!(!heap.is_in_use(mapped, layout(1 << 20, 16)));
    for size in [20, 1 << 20] {
        assert_eq!(heap.allocate(layout(size, 8)), Err(AllocError::UsedSource));
    }
}

#[test]
fn an_invalid_alignment_is_an_error() {
    let mut region: Region = leaked(1 << 10);
    assert_eq!(region.extend(8, 3), Err(AllocError::Exhausted));
}
