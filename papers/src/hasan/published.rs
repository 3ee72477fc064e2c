//! The programs, and the paper's figures for them. Tables 1, 3 and 4 come from a file that
//! `traces/README.md` is also made from; the results are here.

/// The paper's name in the notes of traces.
pub(super) const PAPER: &str = "Hasan & Chang";

/// Tables 1, 3 and 4, one line per entry: table, our trace, their program, figures.
const PROFILES: &str = include_str!("published.txt");

/// A program of the paper.
#[derive(Debug)]
pub(super) struct Published {
    /// Its name in the notes of recordings.
    pub(super) program: &'static str,
    /// The trace that stands in for it, if the program itself is not recorded.
    pub(super) stand_in: Option<&'static str>,
    /// Table 7, for least memory and for most speed.
    pub(super) settings: [Setting; 2],
    /// Table 8: DL272, CK, HCgen, HCmem, HCperf, KB.
    pub(super) memory: [f64; 5],
    /// Table 9: the same, ms.
    pub(super) time: [f64; 5],
    /// Table 5: number of allocations in that time.
    pub(super) allocations: f64,
    /// Table 10: DL270 and HCgen, millions of ticks. For ghostscript the table's line is missing;
    /// the prose gives the share saved.
    pub(super) ticks: Option<[f64; 2]>,
    /// Table 10 and its prose: HCgen ÷ DL270.
    pub(super) ticks_ratio: f64,
    /// §5.8: percentage of the allocations served from quick lists.
    pub(super) quick: Option<f64>,
}

/// COALESCE, COALESCE_QL, COALESCE_IN_FREE, SPLIT, QL_HIGH. MONITOR is always off.
pub(super) type Setting = [u32; 5];

/// In the order of Tables 7 to 9.
pub(super) const PROGRAMS: [Published; 7] = [
    Published {
        program: "ghostscript 6.53",
        stand_in: Some("ghostscript"),
        settings: [[1, 1, 1, 1, 72], [1, 1, 1, 1, 72]],
        memory: [1850.0, 3489.0, 2146.0, 1900.0, 1900.0],
        time: [870.0, 300.0, 650.0, 570.0, 570.0],
        allocations: 1_028_001.0,
        ticks: None,
        ticks_ratio: 0.56,
        quick: Some(60.0),
    },
    Published {
        program: "espresso",
        stand_in: None,
        settings: [[1, 1, 1, 1, 72], [0, 0, 0, 1, 72]],
        memory: [177.0, 361.0, 229.0, 188.0, 385.0],
        time: [790.0, 380.0, 580.0, 630.0, 470.0],
        allocations: 1_140_048.0,
        ticks: Some([95.17, 67.03]),
        ticks_ratio: 0.70,
        quick: None,
    },
    Published {
        program: "p2c",
        stand_in: None,
        settings: [[1, 1, 0, 1, 264], [0, 0, 0, 0, 72]],
        memory: [476.0, 706.0, 516.0, 507.0, 557.0],
        time: [530.0, 410.0, 580.0, 560.0, 470.0],
        allocations: 1_194_834.0,
        ticks: Some([68.61, 65.41]),
        ticks_ratio: 0.95,
        quick: None,
    },
    Published {
        program: "gawk",
        stand_in: None,
        settings: [[1, 0, 1, 1, 264], [1, 0, 0, 1, 264]],
        memory: [47.0, 129.0, 49.0, 49.0, 57.0],
        time: [1080.0, 500.0, 640.0, 510.0, 500.0],
        allocations: 1_412_967.0,
        ticks: Some([142.80, 138.07]),
        ticks_ratio: 0.97,
        quick: None,
    },
    Published {
        program: "cfrac",
        stand_in: None,
        settings: [[0, 0, 0, 1, 72], [0, 0, 0, 1, 72]],
        memory: [2632.0, 3750.0, 2637.0, 2637.0, 2637.0],
        time: [1320.0, 790.0, 940.0, 880.0, 880.0],
        allocations: 1_014_585.0,
        ticks: Some([53.36, 48.79]),
        ticks_ratio: 0.91,
        quick: None,
    },
    Published {
        program: "groff 1.10",
        stand_in: Some("groff"),
        settings: [[0, 0, 1, 1, 72], [0, 0, 0, 1, 72]],
        memory: [380.0, 540.0, 417.0, 385.0, 417.0],
        time: [600.0, 420.0, 490.0, 590.0, 440.0],
        allocations: 1_040_041.0,
        ticks: Some([13.74, 12.38]),
        ticks_ratio: 0.90,
        quick: None,
    },
    Published {
        program: "electric",
        stand_in: Some("yosys"),
        settings: [[0, 0, 1, 1, 72], [0, 0, 0, 1, 72]],
        memory: [5492.0, 7434.0, 6054.0, 5456.0, 6127.0],
        time: [790.0, 490.0, 710.0, 740.0, 620.0],
        allocations: 1_077_441.0,
        ticks: Some([39.66, 39.37]),
        ticks_ratio: 1.00,
        quick: None,
    },
];

/// Returns the paper's figures for the program of this name, or for the one that this trace stands
/// in for.
pub(super) fn of(program: Option<&str>, trace: &str) -> Option<&'static Published> {
    let is = |one: &&Published| program == Some(one.program) || one.stand_in == Some(trace);
    PROGRAMS.iter().find(is)
}

/// Returns a program's figures in Table 1, 3 or 4; empty if there are none.
pub(super) fn profile(table: &str, program: &str) -> Vec<f64> {
    let line = PROFILES.lines().find_map(|line| {
        let (_, rest) = line.strip_prefix(table)?.strip_prefix('|')?.split_once('|')?;
        rest.strip_prefix(program)?.strip_prefix('|')
    });
    let figures = line.into_iter().flat_map(|line| line.split('|'));
    figures.filter_map(|figure| figure.replace(',', "").parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read() {
        assert_eq!(profile("1", "gawk"), [23.0, 19.0, 4.0, 121.49]);
        assert_eq!(profile("4", "cfrac")[0], 67_639.0);
        assert_eq!(profile("3", "jq"), [0.0; 0]);
        for program in &PROGRAMS {
            assert_eq!(profile("3", program.program).len(), 7, "{}", program.program);
        }
    }

    /// Compares with the ratios that the paper prints in parentheses after its figures.
    #[test]
    fn figures_agree_with_the_ratios_printed_beside_them() {
        let ratios = |program: &str, figures: fn(&Published) -> [f64; 5]| {
            let figures = figures(of(Some(program), "").unwrap());
            figures.map(|figure| (100.0 * figure / figures[0]).round() / 100.0)
        };
        assert_eq!(ratios("espresso", |one| one.memory), [1.0, 2.04, 1.29, 1.06, 2.18]);
        assert_eq!(ratios("gawk", |one| one.time), [1.0, 0.46, 0.59, 0.47, 0.46]);
        for program in PROGRAMS.iter().filter(|program| program.ticks.is_some()) {
            let [lea, ours] = program.ticks.unwrap();
            assert!((ours / lea - program.ticks_ratio).abs() < 0.0101, "{}", program.program);
        }
    }
}
