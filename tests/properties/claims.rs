//! Several strategies behind one interface, each over its own region: requests move from one to
//! another as memory runs out.

use libtest_mimic::Trial;
use pagewise::arena::Claims;
use pagewise::pages::Config;
use pagewise::source::Region;
use pagewise::{Strategy, catalogue};

use crate::all_values;
use crate::harness::{self, Bookkeeping, source::Memory};

/// Bytes of each region: neither one region nor all together can hold everything that the harness
/// requests.
const REGIONS: [usize; 4] = [96 << 10, 16 << 10, 200 << 10, 64 << 10];

/// Tests claims of the strategies that `make` builds over regions. They are claimed out of address
/// order, and are adjacent, so that blocks of different strategies are neighbours.
fn drive<S: Strategy>(make: impl Fn(Region) -> S, requests: &[harness::Request]) {
    let mut memory = Memory::new(REGIONS.iter().sum());
    let mut claims = Claims::<S, 4>::new();
    let mut end = 0;
    let parts = REGIONS.map(|bytes| {
        end += bytes;
        end - bytes..end
    });
    for index in [2, 0, 3, 1] {
        // SAFETY: the claims are dropped before the memory, and the parts are disjoint.
        let region = unsafe { memory.part(parts[index].clone()) };
        claims.claim(make(region)).expect("room for four claims");
    }
    harness::drive(&mut claims, Bookkeeping::InBand, requests);
    // SAFETY: the region is empty.
    let refused = claims.claim(make(unsafe { memory.part(0..0) }));
    assert!(refused.is_err_and(|pagewise::arena::ClaimError(strategy)| {
        strategy.usage() == pagewise::Usage::default()
    }));
}

macro_rules! claims {
    ($($name:ident: |$source:ident| $make:expr;)*) => {
        [$(Trial::test(concat!("claims::", stringify!($name)), || {
            let cases = harness::config().cases;
            Ok(all_values(cases, harness::requests(), |requests| drive(|$source| $make, &requests)))
        })),*]
    };
}

/// Claims of strategies that keep their bookkeeping in different places.
pub(crate) fn all() -> impl IntoIterator<Item = Trial> {
    claims! {
        of_page_heaps: |source| catalogue::PageHeap::new(Config::with_page_size(1024), source, ());
        of_least_free: |source| catalogue::LeastFree::new(Config::with_page_size(1024), source, ());
        of_best_fits: |source| catalogue::BestFit::new(1024, source, ());
        of_first_fits: |source| catalogue::FirstFit::new(16, 1024, source, ());
        of_hybrids: |source| catalogue::HcGen::constant(source, ());
        of_head_firsts: |source| catalogue::HeadFirst::new(1024, source, ());
        of_buddies: |source| catalogue::Buddy::new(16, 1024, source, ());
        of_kingsleys: |source| catalogue::Kingsley::new(1024, source, ());
    }
}
