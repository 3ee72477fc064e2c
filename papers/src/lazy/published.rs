//! The figures of Tables 2 to 6, in percent, and the model of §3.

/// The paper's programs.
pub(super) const PROGRAMS: [&str; 4] = ["ESP", "GHS", "PRL", "P2C"];

type Rows = &'static [(&'static str, [f64; 4])];

const TABLE_2: Rows = &[
    ("F", [0.12, 3.59, 0.51, 2.05]),
    ("LF", [15.01, 52.02, 5.52, 3.77]),
    ("LFB", [13.29, 75.29, 5.37, 4.20]),
    ("LFL", [1.54, 3.54, 5.34, 3.77]),
    ("W", [19.01, 86.87, 13.49, 19.54]),
    ("LW", [59.52, 90.12, 23.51, 25.46]),
    ("LWB", [14.62, 88.49, 9.64, 20.96]),
    ("LWL", [1.54, 88.59, 9.60, 20.73]),
];

const TABLE_3: Rows = &[
    ("LF", [21.49, 51.07, 95.72, 46.09]),
    ("LFB", [5.85, 29.05, 93.61, 31.73]),
    ("LFL", [30.81, 47.91, 95.38, 53.19]),
    ("LW", [0.84, 1.84, 10.04, 20.99]),
    ("LWB", [0.17, 1.12, 5.30, 20.01]),
    ("LWL", [11.13, 8.33, 12.87, 30.71]),
];

const TABLE_4: Rows = &[
    ("F", [0.01, 3.76, 0.00, 2.53]),
    ("LF", [0.03, 27.16, 2.48, 3.15]),
    ("W", [0.23, 80.75, 5.62, 18.73]),
    ("LW", [0.18, 81.99, 5.45, 15.75]),
];

const TABLE_5: Rows = &[
    ("F", [0.06, 4.48, 0.00, 2.53]),
    ("LF", [0.06, 4.42, 2.98, 3.15]),
    ("W", [0.36, 52.48, 6.10, 18.73]),
    ("LW", [0.24, 56.23, 5.94, 15.75]),
];

const TABLE_6: Rows = &[("LF", [3.82, 58.05, 61.30, 38.06]), ("LW", [1.31, 2.91, 14.36, 39.91])];

/// Returns an algorithm's published figure for one of the paper's programs; `None` if there is
/// none.
pub(super) fn figure(table: &str, algorithm: &str, program: &str) -> Option<f64> {
    let rows = match table {
        "2" => TABLE_2,
        "3" => TABLE_3,
        "4" => TABLE_4,
        "5" => TABLE_5,
        "6" => TABLE_6,
        _ => return None,
    };
    let program = PROGRAMS.iter().position(|one| *one == program)?;
    rows.iter().find(|(name, _)| *name == algorithm).map(|(_, figures)| figures[program])
}

/// Returns §3's estimate of the time of a lazy allocation relative to a conventional one's when
/// this share of allocations needs the fit: (I + share · F) ÷ (F + S), with its cycles I = 10 for a
/// bump, F = 16 for a fit, S = 14 for splitting.
pub(super) fn relative_time(fit_share: f64) -> f64 {
    (10.0 + fit_share * 16.0) / 30.0
}
