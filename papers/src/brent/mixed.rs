//! Tables 7.1 and 7.2: the distributions; and for each strategy the storage efficiency and the
//! items visited.

use std::ptr::NonNull;

use pagewise::meter::{Counter, Meter};
use pagewise::pages::placement::{CurrentPage, InBand, Least, LeftHeaders};
use pagewise::pages::{Config, Paged};
use pagewise::segments::FirstFit;
use pagewise::sizemap::{self, Demand, SizeMap};
use pagewise::source::Reserved;
use pagewise::{Strategy, Usage, catalogue};
use pagewise_replay::generator::{Distribution, Process};
use pagewise_replay::progress::Progress;
use rayon::prelude::*;

use super::options::{Made, Options};
use crate::experiments::brent::mixed::{self, Efficiency, Watch};
use crate::experiments::brent::tagless::Tagless;
use crate::table::{Column, Near, Pair, Ranked, Table, columns};

const CAMBRIDG: &str = "cambridg-like";
const YKTVMV: &str = "yktvmv-like";
const CAMBRIDG_SPREAD: &str = "cambridg-spread";
const YKTVMV_SPREAD: &str = "yktvmv-spread";

/// Sizes whose blocks are held for this many seconds or less are ignored (§7.2).
const SHORTEST: f64 = 0.01;

/// Unit of all sizes, bytes (§7.1).
pub(super) const UNIT: usize = 8;
/// Bytes of address space; only touched pages take memory.
pub(super) const CAPACITY: usize = 1 << 32;

/// Returns the distribution YKTVMV, or the variant in which each size has its own lifetimes.
pub(super) fn yktvmv(spread: bool) -> anyhow::Result<Distribution> {
    Distribution::load(if spread { YKTVMV_SPREAD } else { YKTVMV })
}

/// Table 7.1.
pub(super) fn table_7_1(_: Options, progress: &Progress) -> anyhow::Result<Made> {
    const PUBLISHED: [(&str, [f64; 2]); 5] = [
        ("requests per second", [196.0, 1033.0]),
        ("active blocks", [2347.0, 27_360.0]),
        ("storage requested, bytes", [307_397.0, 3_226_427.0]),
        ("size of a request, bytes", [98.0, 129.0]),
        ("block lifetime, seconds", [12.0, 26.0]),
    ];
    let statistics = |name: &str| -> anyhow::Result<[f64; 5]> {
        let classes = Distribution::load(name)?.classes;
        let rate: f64 = classes.iter().map(|class| class.rate).sum();
        let live: f64 = classes.iter().map(|class| class.live).sum();
        let bytes: f64 = classes.iter().map(|class| class.live * class.size as f64).sum();
        let asked: f64 = classes.iter().map(|class| class.rate * class.size as f64).sum();
        Ok([rate, live, bytes, asked / rate, live / rate])
    };
    let names = [CAMBRIDG, YKTVMV, CAMBRIDG_SPREAD, YKTVMV_SPREAD];
    let ours = names.into_iter().map(statistics).collect::<anyhow::Result<Vec<_>>>()?;
    let rows = PUBLISHED.iter().enumerate().map(|(index, (name, published))| {
        let pair = |at: usize| Pair::new(published[at % 2], ours[at][index]);
        ((*name).to_owned(), (0..4).map(pair).collect())
    });
    progress.step(1, || "distributions".into());
    let table = Table {
        number: "7.1",
        title: "the distributions CAMBRIDG and YKTVMV".into(),
        columns: ["CAMBRIDG", "YKTVMV", "CAMBRIDG, spread", "YKTVMV, spread"]
            .map(|name| Column::new(name, 0).near(Near::Percent(2.0)))
            .into(),
        rows: rows.collect(),
        notes: vec![
            "our distributions match these statistics; the paper does not give rates and lifetimes \
             by size"
                .into(),
            "spread: rates and lifetimes differ from size to size; two parameters are fitted to QUICK's two E of Table 7.3".into(),
        ],
        ranked: Ranked::Not,
        ..Table::default()
    };
    Ok(table.into())
}

/// The strategy in a row of Table 7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// A strategy of the catalogue; FFCROSSOVER 0 means FIRST-FIT with segments of a page.
    Named(&'static str),
    /// LEAST-FREE whose free blocks are linked within the page (§4).
    InBand,
    /// FIRST-FIT whose searches of a segment also count the blocks in use.
    CountingAll,
    /// Binary buddies without tags, which look for a buddy on its list.
    Tagless,
}

/// A row of Table 7.2.
struct Row {
    name: &'static str,
    /// The server, page size and FFCROSSOVER; `None` if we lack the strategy.
    ours: Option<(Server, usize, usize)>,
    /// Storage efficiency, then items visited, for CAMBRIDG and YKTVMV.
    published: Option<[f64; 4]>,
}

const fn row(name: &'static str, ours: (Server, usize, usize), published: [f64; 4]) -> Row {
    Row { name, ours: Some(ours), published: Some(published) }
}

/// A variant of the previous row.
const fn form(name: &'static str, ours: (Server, usize, usize)) -> Row {
    Row { name, ours: Some(ours), published: None }
}

const ROWS: [Row; 21] = {
    use Server::{CountingAll, InBand, Named, Tagless};
    let [first, next] = [Named("FIRST-FIT (LIST)"), Named("NEXT-FIT")];
    let [segments, buddy, least] = [Named("FIRST-FIT"), Named("BUDDY"), Named("LEAST-FREE")];
    [
        Row {
            name: "Standard IBM, p = 4096",
            ours: None,
            published: Some([0.843, 0.887, 9.7, 108.7]),
        },
        row("First-fit (Bozman et al.)", (first, 4096, 4096), [0.844, 0.926, 425.4, 3270.0]),
        row("First-fit, p = 512", (segments, 512, 0), [0.844, 0.877, 20.58, 20.14]),
        form("  blocks in use counted", (CountingAll, 512, 0)),
        row("First-fit, p = 4096", (segments, 4096, 0), [0.852, 0.902, 107.94, 115.19]),
        form("  blocks in use counted ", (CountingAll, 4096, 0)),
        row("Next-fit", (next, 4096, 4096), [0.570, 0.567, 207.4, 1892.8]),
        row("Binary buddy, tag bits", (buddy, 4096, 4096), [0.683, 0.641, 5.01, 5.00]),
        row("Binary buddy, no tag bits", (Tagless, 4096, 4096), [0.688, 0.716, 16.31, 50.44]),
        row("LEAST-FREE, p = 512, 120", (least, 512, 120), [0.830, 0.886, 5.67, 5.82]),
        form("  linked in the page, 512, 120", (InBand, 512, 120)),
        form("  MOST-FREE, 512, 120", (Named("MOST-FREE"), 512, 120)),
        form("  MRU, 512, 120", (Named("MRU"), 512, 120)),
        row("LEAST-FREE, p = 512, 512", (least, 512, 512), [0.759, 0.811, 5.45, 5.33]),
        form("  linked in the page, 512, 512", (InBand, 512, 512)),
        row("LEAST-FREE, p = 4096, 120", (least, 4096, 120), [0.806, 0.913, 6.31, 8.50]),
        form("  linked in the page, 4096, 120", (InBand, 4096, 120)),
        row("LEAST-FREE, p = 4096, 4096", (least, 4096, 4096), [0.750, 0.896, 5.05, 5.03]),
        form("  linked in the page, 4096, 4096", (InBand, 4096, 4096)),
        form("  MOST-FREE, 4096, 4096", (Named("MOST-FREE"), 4096, 4096)),
        form("  MRU, 4096, 4096", (Named("MRU"), 4096, 4096)),
    ]
};

/// Runs of Table 7.2: two distributions for each row that we have.
pub(super) const RUNS: u64 = 2 * (ROWS.len() as u64 - 1);

/// Returns the parameters of Brent's §7: FREETOL 1, SIZEMAP by dynamic programming.
pub(super) fn config(
    distribution: &Distribution,
    page_size: usize,
    ffcrossover: usize,
    seed: u64,
) -> Config {
    let demand: Vec<Demand> = distribution
        .classes
        .iter()
        .map(|class| Demand { size: class.size as usize, live: class.live })
        .collect();
    let classes = sizemap::optimise(&demand, UNIT, ffcrossover.max(UNIT), page_size);
    // A configuration needs a static list.
    let classes = SizeMap::Classes(classes.leak());
    Config::new()
        .page_size(page_size)
        .unit(UNIT)
        .sizemap(classes)
        .ffcrossover(ffcrossover)
        .seed(seed)
}

impl Server {
    /// Returns the strategy with this configuration.
    fn build<'m>(
        self,
        config: Config,
        meter: &'m dyn Meter,
    ) -> anyhow::Result<Box<dyn Strategy + 'm>> {
        type LinkedInPages<M> = Paged<CurrentPage<LeftHeaders<Least>, InBand>, Reserved, M>;
        let source = Reserved::new(CAPACITY);
        let first_fit = |source| {
            FirstFit::with_segments(UNIT, config.page_size, config.page_size, source, meter)
        };
        Ok(match self {
            Self::Named(_) if config.ffcrossover == 0 => Box::new(first_fit(source)),
            Self::CountingAll => Box::new(first_fit(source).counting_in_use()),
            Self::InBand => Box::new(LinkedInPages::new(config, source, meter)),
            Self::Named(name) => {
                let entry = catalogue::find(name);
                let entry = entry.ok_or_else(|| anyhow::anyhow!("no strategy {name}"))?;
                entry.build_metered(config, CAPACITY, meter)?
            }
            Self::Tagless => anyhow::bail!("these buddies are simulated"),
        })
    }

    /// Returns whether it searches free blocks linearly, which is slow.
    fn is_linear(self) -> bool {
        matches!(self, Self::Named("FIRST-FIT (LIST)" | "NEXT-FIT") | Self::Tagless)
    }
}

/// Samples only the storage efficiency.
impl Watch for Efficiency {
    fn reference(&mut self, _: NonNull<u8>) {}
    fn second(&mut self, usage: &Usage) {
        self.sample(usage);
    }
}

/// Returns the mean storage efficiency, and the items visited per block.
fn measure(
    distribution: &Distribution,
    (server, page_size, ffcrossover): (Server, usize, usize),
    options: Options,
) -> anyhow::Result<[f64; 2]> {
    let (warm_up, seconds) = match () {
        () if options.quick => (40, 80.0),
        () if server.is_linear() => (200, 600.0),
        () => (200, 4200.0),
    };
    let events = Process::new(distribution, seconds, options.seed)?;
    let mut efficiency = Efficiency::after(warm_up);
    if server == Server::Tagless {
        let items = Tagless::run(events, &mut efficiency);
        return Ok([efficiency.mean(), items]);
    }
    let config = config(distribution, page_size, ffcrossover, options.seed);
    let counter = Counter::new();
    let mut strategy = server.build(config, &counter)?;
    let blocks = mixed::run(events, 1, &mut *strategy, &mut efficiency)?;
    Ok([efficiency.mean(), counter.items() as f64 / blocks as f64])
}

/// Table 7.2.
pub(super) fn table_7_2(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    table_7_2_of([CAMBRIDG, YKTVMV], "7.2", "", options, progress)
}

/// Table 7.2.1, ours: the same, where each size has its own lifetimes.
pub(super) fn table_7_2_1(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let title = ", over the distributions with lifetimes of their own";
    table_7_2_of([CAMBRIDG_SPREAD, YKTVMV_SPREAD], "7.2.1", title, options, progress)
}

fn table_7_2_of(
    names: [&str; 2],
    number: &'static str,
    title: &str,
    options: Options,
    progress: &Progress,
) -> anyhow::Result<Made> {
    let mut distributions = [Distribution::load(names[0])?, Distribution::load(names[1])?];
    let mut ignored = 0;
    for distribution in &mut distributions {
        let all = distribution.classes.len();
        distribution.classes.retain(|class| class.holding() > SHORTEST);
        ignored += all - distribution.classes.len();
    }
    let runs: Vec<_> = (0..ROWS.len())
        .flat_map(|row| [(row, 0), (row, 1)])
        .filter(|&(row, _)| ROWS[row].ours.is_some())
        .collect();
    let measured = runs
        .par_iter()
        .map(|&(row, which)| {
            let Some(parameters) = ROWS[row].ours else { return Ok([f64::NAN; 2]) };
            let measured = measure(&distributions[which], parameters, options)?;
            progress.step(1, || ROWS[row].name.to_owned());
            Ok(measured)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let rows = ROWS.iter().enumerate().map(|(index, row)| {
        let ours = |which: usize, figure: usize| {
            let run = runs.iter().position(|&run| run == (index, which))?;
            Some(measured[run][figure])
        };
        let figures = [ours(0, 0), ours(1, 0), ours(0, 1), ours(1, 1)];
        let pairs = figures.into_iter().enumerate();
        let pairs =
            pairs.map(|(at, ours)| Pair::new(row.published.map(|published| published[at]), ours));
        (row.name.to_owned(), pairs.collect())
    });
    let table = Table {
        number,
        title: format!(
            "storage efficiencies and items visited (strategy, page size, FFCROSSOVER){title}"
        ),
        columns: ["E CAMBRIDG", "E YKTVMV"]
            .map(|name| Column::new(name, 3).within(0.05))
            .into_iter()
            .chain(columns([("items CAMBRIDG", 2), ("items YKTVMV", 2)]))
            .collect(),
        rows: rows.collect(),
        notes: vec![
            "E: bytes requested ÷ bytes held, bookkeeping included, sampled every second".into(),
            "the standard IBM algorithm is only quoted; lists of all free blocks are run for 400 seconds, not 4,000".into(),
            format!("sizes held for 0.01 s or less are ignored, as in the paper: {ignored} of 1,024"),
            "indented: another form of the row above, without figures in the paper".into(),
        ],
        ..Table::default()
    };
    Ok(table.into())
}
