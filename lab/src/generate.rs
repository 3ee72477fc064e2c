//! Generates a trace from a distribution of sizes, as Brent (§7.1, after Bozman et al.) does:
//! requests for each size arrive, and blocks are held, for exponentially distributed times.

use std::path::PathBuf;
use std::process::ExitCode;

use pagewise::trace::{Origin, Writer};
use pagewise_replay::generator::{Distribution, Process};
use pagewise_replay::usage::Usage;
use pagewise_replay::{output, units};

/// Make a trace from a distribution of sizes, arrival rates and live counts
#[derive(Debug, clap::Args)]
#[command(
    after_help = HELP,
    override_usage = "pagewise generate [OPTIONS] --distribution <FILE|NAME>\n       --seconds <N> --output <FILE>",
)]
pub(crate) struct Args {
    /// A CSV file with the columns size, rate, live; or the name of a built-in distribution
    #[arg(long, value_name = "FILE|NAME")]
    distribution: String,
    /// Simulated time, in seconds
    #[arg(long, value_name = "N", value_parser = parse_seconds)]
    seconds: f64,
    /// Seed: the same seed gives the same trace
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Trace file to write; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

const HELP: &str = "\
Examples:
  pagewise generate --distribution cambridg-like --seconds 300 -o cambridg.pwt
  pagewise generate --distribution sizes.csv --seconds 60 --seed 7 -o mine.pwt

The CSV file has a header line and one line per size:
  size,rate,live
  16,1000,250        16 bytes: 1000 allocations per second, 250 live on average
  4096,2.5,40
The mean lifetime of a block follows from Little's law: live / rate seconds. The
simulation starts with nothing live, and approaches the live counts after a few
mean lifetimes.

The built-in distributions match the five statistics of Brent's Table 7.1
(requests per second, blocks and bytes live, mean size, mean lifetime). The
paper does not give the share of each size; these shares are invented:
  cambridg-like    196 requests/s,  2,347 blocks of   307,397 bytes live
  yktvmv-like    1,033 requests/s, 27,360 blocks of 3,226,427 bytes live
  cambridg-spread, yktvmv-spread: the same, each size with its own lifetime";

/// Runs the subcommand.
///
/// # Errors
/// If the distribution is invalid (the error names the line), or the output cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    output::claim(Distribution::file(&args.distribution), [&*args.output])?;
    let distribution = Distribution::load(&args.distribution)?;
    let origin = Origin {
        program: "pagewise-generate".into(),
        arguments: vec![
            format!("--distribution={}", args.distribution),
            format!("--seconds={}", args.seconds),
            format!("--seed={}", args.seed),
        ],
        // No date, so that the same command gives the same file.
        date: 0,
        pointer_width: 64,
        note: "simulated".into(),
    };
    let header = output::create(&args.output, |out| {
        let mut writer = Writer::new(out, origin)?;
        for event in Process::new(&distribution, args.seconds, args.seed)? {
            writer.write(event)?;
        }
        Ok(writer.finish()?)
    })?;
    output::say(&format!(
        "{}: {}, at most {} in {} live; seed {}",
        output::shown(&args.output),
        units::count(header.events, "event"),
        units::bytes(header.peak_bytes),
        units::count(header.peak_blocks, "block"),
        args.seed
    ));
    Ok(ExitCode::SUCCESS)
}

fn parse_seconds(text: &str) -> Result<f64, Usage> {
    match text.parse() {
        // A 64-bit microsecond clock would allow more, but such a run would take too long.
        Ok(seconds) if seconds > 0.0 && seconds <= 1e9 => Ok(seconds),
        _ => Err(Usage("expected a number of seconds above 0, at most 1,000,000,000".into())),
    }
}
