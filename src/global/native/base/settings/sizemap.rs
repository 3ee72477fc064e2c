//! Parses a SIZEMAP from the environment.

use super::super::apart::Apart;
use super::super::once::Once;
use crate::global::tuning::unit_of_classes;
use crate::sizemap::SizeMap;

/// Most classes that are accepted.
const MOST: usize = 256;

/// Sizes of classes, in bytes.
#[derive(Clone, Copy, PartialEq)]
struct Classes {
    /// The sizes, ascending, and behind the first `count` zeros.
    sizes: [u32; MOST],
    /// Number of classes.
    count: usize,
}

/// The classes that a SIZEMAP refers to; nothing can be allocated for them yet. The environment is
/// read once, so there is one list.
static CLASSES: Apart<Once<Classes>> = Apart::new(Once::new());

/// Parses `linear`, `page-fitting`, `geometric=RATIO`, or classes separated by commas.
pub(super) fn parse(text: &str) -> Option<SizeMap> {
    match text.split_once('=') {
        None if text == "linear" => Some(SizeMap::Linear),
        None if text == "page-fitting" => Some(SizeMap::PageFitting),
        Some(("geometric", ratio)) => {
            let ratio = decimal(ratio).filter(|&ratio| ratio > 1.0 && ratio <= 1024.0)?;
            Some(SizeMap::Geometric { ratio })
        }
        None => kept(read(text)?),
        Some(_) => None,
    }
}

/// Parses a number in decimal notation, exact but for rounding. The standard library's parser would
/// add 17 KB to every program.
fn decimal(text: &str) -> Option<f64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let number = |digits: &str| {
        digits.bytes().try_fold(0.0, |number, digit| {
            digit.is_ascii_digit().then(|| 10.0 * number + f64::from(digit - b'0'))
        })
    };
    let scale = part.bytes().fold(1.0, |scale, _| 10.0 * scale);
    Some(number(whole)? + number(part)? / scale)
}

/// Parses classes separated by commas; `None` if they do not ascend, or would have to be rounded up
/// to [units](unit_of_classes).
fn read(text: &str) -> Option<Classes> {
    let mut classes = Classes { sizes: [0; MOST], count: 0 };
    let mut last = 0;
    for size in text.split(',') {
        let size = size.trim().parse().ok()?;
        if size <= last {
            return None;
        }
        *classes.sizes.get_mut(classes.count)? = size;
        classes.count += 1;
        last = size;
    }
    let unit = unit_of_classes(&classes.sizes[..classes.count]) as u32;
    classes.sizes.iter().all(|size| size.is_multiple_of(unit)).then_some(classes)
}

/// Returns a SIZEMAP of these classes; `None` if others are kept already.
fn kept(classes: Classes) -> Option<SizeMap> {
    let kept = CLASSES.get_or_set(classes);
    (*kept == classes).then(|| SizeMap::Classes(&kept.sizes[..kept.count]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read_by_name_or_class_by_class() {
        assert_eq!(parse("linear"), Some(SizeMap::Linear));
        assert_eq!(parse("page-fitting"), Some(SizeMap::PageFitting));
        for (text, ratio) in
            [("1.25", 1.25), ("2", 2.0), ("2.0", 2.0), ("1.1", 1.1), ("1024.", 1024.0)]
        {
            assert_eq!(parse(&format!("geometric={text}")), Some(SizeMap::Geometric { ratio }));
        }
        let e = core::f64::consts::E;
        let parsed = decimal(&e.to_string()).expect("it is a number");
        assert!((parsed - e).abs() <= 2.0 * f64::EPSILON, "{parsed} {e}");
        for wrong in [
            "",
            "cubic",
            "linear=1",
            "geometric",
            "geometric=1",
            "geometric=NaN",
            "geometric=1024.1",
            "geometric=1.2.5",
            "geometric=+1.5",
            "geometric=1.-5",
            "geometric=1e2",
            "16,",
            "16,16",
            "32,16",
            "0,16",
            "20",
            "24",
            "16,20",
            "8,16,24,40",
            "16,x",
            "-16",
            "99999999999",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        let many =
            |count: u32| (1..=count).map(|n| (16 * n).to_string()).collect::<Vec<_>>().join(",");
        assert!(read(&many(MOST as u32)).is_some() && read(&many(MOST as u32 + 1)).is_none());
        assert!(read("8,16,24,32,40,48").is_some() && read("48,56").is_none());
        // The process keeps one list.
        assert_eq!(parse("16, 48,1024"), Some(SizeMap::Classes(&[16, 48, 1024])));
        assert_eq!(parse("16,48,1024"), Some(SizeMap::Classes(&[16, 48, 1024])));
        assert_eq!(parse("16,48"), None);
    }
}
