//! The names of the catalogue. A unit test of them would compile every strategy once more, into the
//! library's test program.

use std::ptr;

use pagewise::catalogue::{all, families, find};

#[test]
fn every_name_is_found_and_only_once() {
    for entry in all() {
        assert!(ptr::eq(find(&entry.name.to_ascii_lowercase()).unwrap(), entry));
        let families = families().iter().any(|family| family.name == entry.name);
        assert!(!families, "{} names a family and a strategy", entry.name);
    }
}
