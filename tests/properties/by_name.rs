//! Every strategy of the catalogue as the tools build it: over a growing reservation.

use pagewise::catalogue;
use pagewise::pages::Config;
use proptest::prelude::*;

use crate::harness::{self, Bookkeeping};

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..harness::config() })]

    #[test]
    fn keeps_its_promises(requests in harness::requests()) {
        for entry in catalogue::all() {
            let mut strategy = entry.build(Config::new(), 1 << 30).expect("a valid configuration");
            let bookkeeping = if entry.in_band { Bookkeeping::InBand } else { Bookkeeping::Apart };
            harness::drive(&mut *strategy, bookkeeping, &requests);
        }
    }
}
