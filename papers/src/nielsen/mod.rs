//! `pagewise tables nielsen`: Nielsen (1977), "Dynamic memory allocation in computer simulation".
//! `docs/nielsen.md` explains how the experiment was reconstructed.

mod base;
mod beside;
mod demands;
mod every;
mod levels;
mod measure;
mod published;

use std::process::ExitCode;

use pagewise_replay::progress::Progress;

use crate::options::{Asked, Paper};
use crate::print::Printer;
use crate::table::Table;

/// Nielsen 1977: 35 algorithms in memory of a fixed size, over 18 loads
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked<Nielsen>,
    /// Number of seeds for each load, starting at --seed
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u64).range(1..=1000))]
    samples: u64,
    /// The first seed of the loads: the same seed gives the same loads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..1 << 32))]
    seed: u64,
}

const HELP: &str = "\
Examples:
  pagewise tables nielsen
  pagewise tables nielsen --table IV --samples 25
  pagewise tables nielsen --table VI --json

Costs of allocating and deallocating are relative to those of IV-1 at 50 %:
published in microseconds of an IBM 360/65, ours in items visited and pointers
written, and in nanoseconds. IV.1 has the deviations between periods, V.1 V-5
beside V-1, V.2 the lists of category IV in each reading that the paper allows,
V.3 Fibonacci buddies, its open question. The peak demand is 50, 66.7 or 80 % of
memory; an algorithm fails when it cannot serve a request.";

/// The numbers of the tables.
const NUMBERS: [&str; 9] = ["I", "II", "IV", "IV.1", "V", "V.1", "V.2", "V.3", "VI"];
/// Makes a table over loads with these seeds.
type Make = fn(&[u64]) -> Table;
/// Our own tables, each made separately.
const OURS: [(&str, Make); 4] = [
    ("IV.1", beside::table_iv_1),
    ("V.1", beside::table_v_1),
    ("V.2", beside::table_v_2),
    ("V.3", beside::table_v_3),
];

#[derive(Debug)]
struct Nielsen;

impl Paper for Nielsen {
    const NOTE: &str = "; III is in docs/nielsen.md";

    fn numbers() -> Vec<&'static str> {
        NUMBERS.to_vec()
    }
}

/// Runs the subcommand.
///
/// # Errors
/// If the figures cannot be written.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let wanted = |number| args.asked.has(number);
    let seeds: Vec<u64> = (args.seed..).take(args.samples as usize).collect();
    let mut steps = 0;
    if wanted("IV") {
        steps += base::count_steps(&seeds);
    }
    if wanted("V") || wanted("VI") {
        steps += every::count_steps(&seeds);
    }
    steps += OURS.iter().filter(|(number, _)| wanted(number)).count() as u64;
    let progress = Progress::new(steps);
    let mut printer = Printer::new(args.asked.json);
    let last = seeds.last().copied().unwrap_or(args.seed);
    printer.say(&format!(
        "Nielsen 1977, published figures beside ours; seeds {} to {last}",
        args.seed
    ))?;
    let mut show = |tables: Vec<Table>| {
        progress.above(|| tables.iter().try_for_each(|table| printer.table(table)))
    };
    if wanted("I") {
        show(vec![demands::table_i(&seeds)])?;
    }
    if wanted("II") {
        show(vec![demands::table_ii(&seeds)])?;
    }
    if wanted("IV") {
        show(base::table_iv(&seeds, &progress))?;
    }
    if wanted("V") || wanted("VI") {
        let (fifth, sixth) = every::tables_v_and_vi(&seeds, &progress);
        if wanted("V") {
            show(fifth)?;
        }
        if wanted("VI") {
            show(vec![sixth])?;
        }
    }
    for (number, make) in OURS.into_iter().filter(|(number, _)| wanted(number)) {
        let table = make(&seeds);
        progress.step(1, || format!("table {number}"));
        show(vec![table])?;
    }
    progress.finish();
    printer.finish()
}
