//! Any text read as a distribution of sizes gives valid classes, or an error.

use std::collections::HashSet;
use std::fmt::Write;

use arbitrary::{Arbitrary, Unstructured};

#[path = "../../replay/src/generator/distribution.rs"]
#[allow(dead_code, unreachable_pub, reason = "the workbench uses more of it")]
mod format;

#[derive(Debug, Arbitrary)]
enum Text<'a> {
    Any(&'a str),
    Table { order: u8, rows: Vec<[Field<'a>; 3]> },
}

#[derive(Debug, Arbitrary)]
enum Field<'a> {
    Small(u8),
    Size(u64),
    Number(f64),
    Text(&'a str),
}

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = Text::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let mut csv = String::new();
    match text {
        Text::Any(any) => csv += any,
        Text::Table { order, rows } => {
            csv += ["size,rate,live\n", "live, Rate ,size\n", "rate,size,live\n"]
                [usize::from(order % 3)];
            for [a, b, c] in &rows {
                for (field, end) in [(a, ","), (b, ","), (c, "\n")] {
                    match field {
                        Field::Small(number) => write!(csv, "{number}{end}"),
                        Field::Size(number) => write!(csv, "{number}{end}"),
                        Field::Number(number) => write!(csv, "{number}{end}"),
                        Field::Text(text) => write!(csv, "{text}{end}"),
                    }
                    .expect("a string takes it");
                }
            }
        }
    }
    let Ok(distribution) = format::Distribution::read(csv.as_bytes()) else { return };
    assert!(!distribution.classes.is_empty());
    let mut sizes = HashSet::new();
    for class in &distribution.classes {
        assert!(sizes.insert(class.size) && class.size <= 1 << 36, "{class:?}");
        assert!(class.rate > 0.0 && class.rate.is_finite(), "{class:?}");
        assert!(class.live > 0.0 && class.live.is_finite() && class.holding() >= 0.0, "{class:?}");
    }
}
