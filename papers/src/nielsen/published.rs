//! The figures of Nielsen's Tables I, II, IV, V and VI (1977).

/// A cell of Table IV: one algorithm with one amount of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    /// Space used in percent of memory, microseconds to allocate and to deallocate.
    Succeeds(f64, f64, f64),
    /// The text says whether it failed, but gives no figures.
    Known {
        fails: bool,
    },
    Fails,
}

impl Outcome {
    pub(super) fn fails(self) -> bool {
        self == Self::Fails || self == Self::Known { fails: true }
    }

    pub(super) fn space(self) -> Option<f64> {
        if let Self::Succeeds(space, ..) = self { Some(space) } else { None }
    }

    /// Returns the microseconds to allocate and to deallocate.
    pub(super) fn times(self) -> Option<(f64, f64)> {
        if let Self::Succeeds(_, allocate, free) = self { Some((allocate, free)) } else { None }
    }
}

use Outcome::{Fails, Known, Succeeds as Served};

/// Table IV, in the order of the algorithms, for requests of 50, 66.7 and 80 % of the memory. Our
/// copy of the table lacks V-6 and category VI. That V-6 fails and VI does not follows from the
/// text: 4 algorithms fail at 66.7 %, 14 at 80 %.
pub(super) const TABLE_IV: [[Outcome; 3]; 35] = [
    [Served(55.0, 742.0, 31.0), Served(73.3, 742.0, 31.0), Served(88.0, 742.0, 31.0)],
    [Served(54.5, 67.0, 42.0), Served(73.0, 75.0, 41.0), Fails],
    [Served(55.1, 2274.0, 30.0), Served(73.4, 2274.0, 30.0), Served(88.1, 2274.0, 30.0)],
    [Served(52.5, 1294.0, 10.0), Served(70.0, 1294.0, 10.0), Served(84.0, 1294.0, 10.0)],
    [Served(52.6, 71.0, 10.0), Served(70.2, 83.0, 10.0), Fails],
    [Served(52.3, 59.0, 1227.0), Served(69.8, 65.0, 1140.0), Fails],
    [Served(52.5, 124.0, 17.0), Served(70.0, 149.0, 23.0), Fails],
    [Served(52.2, 1466.0, 10.0), Served(69.6, 1466.0, 10.0), Served(83.6, 1469.0, 10.0)],
    [Served(52.9, 196.0, 120.0), Served(70.5, 209.0, 118.0), Served(84.4, 215.0, 117.0)],
    [Served(52.3, 46.0, 96.0), Served(70.0, 48.0, 94.0), Fails],
    [Served(52.7, 609.0, 66.0), Served(70.3, 609.0, 66.0), Served(84.4, 603.0, 67.0)],
    [Served(52.7, 524.0, 63.0), Served(70.3, 524.0, 63.0), Served(84.4, 520.0, 63.0)],
    [Served(52.6, 97.0, 22.0), Served(70.3, 144.0, 26.0), Served(84.4, 182.0, 33.0)],
    [Served(52.4, 76.0, 26.0), Served(69.8, 93.0, 35.0), Fails],
    [Served(52.3, 636.0, 28.0), Served(69.7, 473.0, 35.0), Served(83.8, 448.0, 42.0)],
    [Served(52.2, 323.0, 29.0), Served(69.7, 349.0, 35.0), Served(84.0, 387.0, 43.0)],
    [Served(53.2, 210.0, 23.0), Served(70.9, 210.0, 23.0), Fails],
    [Served(53.6, 190.0, 23.0), Served(71.1, 259.0, 23.0), Served(85.6, 341.0, 23.0)],
    [Served(52.7, 456.0, 23.0), Served(70.5, 276.0, 34.0), Fails],
    [Served(52.2, 231.0, 17.0), Served(69.7, 231.0, 17.0), Served(83.6, 233.0, 17.0)],
    [Served(52.4, 1401.0, 20.0), Served(70.1, 744.0, 22.0), Served(84.4, 506.0, 26.0)],
    [Served(52.2, 1591.0, 20.0), Served(69.7, 1591.0, 20.0), Served(83.6, 1580.0, 20.0)],
    [Served(53.5, 20.0, 21.0), Served(71.4, 20.0, 21.0), Served(85.6, 20.0, 21.0)],
    [Served(56.6, 20.0, 21.0), Served(75.4, 20.0, 21.0), Served(90.5, 20.0, 21.0)],
    [Served(55.8, 20.0, 43.0), Served(74.3, 20.0, 43.0), Served(89.2, 20.0, 43.0)],
    [Served(56.0, 52.0, 67.0), Served(74.6, 53.0, 68.0), Served(89.5, 52.0, 67.0)],
    [Served(55.9, 42.0, 57.0), Served(74.6, 42.0, 57.0), Served(89.4, 42.0, 57.0)],
    [Served(73.8, 53.0, 53.0), Fails, Fails],
    [Served(73.8, 47.0, 56.0), Served(98.4, 47.0, 56.0), Fails],
    [Served(73.8, 47.0, 59.0), Fails, Fails],
    [Served(73.8, 48.0, 58.0), Served(98.4, 48.0, 58.0), Fails],
    [Served(73.8, 47.0, 29.0), Fails, Fails],
    [Known { fails: false }, Fails, Fails],
    [Known { fails: false }, Known { fails: false }, Known { fails: false }],
    [Known { fails: false }, Known { fails: false }, Known { fails: false }],
];

/// A cell of Table V: the minimum and maximum microseconds to allocate and deallocate a block, and
/// the loads served.
type Range = (f64, f64, f64);

/// The algorithms of Tables V and VI, and their range for each amount of memory.
pub(super) const TABLE_V: [(&str, [Range; 3]); 7] = [
    ("I-2", [(106.0, 112.0, 18.0), (107.0, 130.0, 17.0), (108.0, 138.0, 2.0)]),
    ("I-5", [(76.0, 87.0, 18.0), (79.0, 113.0, 18.0), (79.0, 198.0, 9.0)]),
    ("II-2", [(137.0, 149.0, 18.0), (139.0, 146.0, 18.0), (146.0, 156.0, 7.0)]),
    ("II-6", [(90.0, 114.0, 18.0), (103.0, 166.0, 18.0), (133.0, 287.0, 10.0)]),
    ("IV-1", [(41.0, 42.0, 18.0), (41.0, 42.0, 18.0), (41.0, 169.0, 15.0)]),
    ("V-1", [(99.0, 110.0, 18.0), (103.0, 110.0, 8.0), (110.0, 110.0, 1.0)]),
    ("V-5", [(76.0, 77.0, 18.0), (76.0, 76.0, 3.0), (76.0, 76.0, 1.0)]),
];

/// Medians relative to IV-1, in the order of [`TABLE_V`]; `None` if half of the loads or more were
/// not served.
pub(super) const TABLE_VI: [[Option<f64>; 3]; 7] = [
    [Some(2.6), Some(2.8), None],
    [Some(2.0), Some(2.3), None],
    [Some(3.5), Some(3.4), None],
    [Some(2.6), Some(3.2), Some(4.3)],
    [Some(1.0), Some(1.0), Some(1.0)],
    [Some(2.5), None, None],
    [Some(1.8), None, None],
];

/// Table I: the maximum and minimum words in use, allocations and deallocations of a period.
pub(super) const TABLE_I: [(f64, f64); 3] = [(5768.0, 4684.0), (474.0, 413.0), (473.0, 396.0)];

/// Table I: total allocations and deallocations in the 20 periods.
pub(super) const TABLE_I_TOTAL: (f64, f64) = (8861.0, 8795.0);
