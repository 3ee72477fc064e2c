//! Options shared by the subcommands of several papers.

use std::fmt::Debug;
use std::marker::PhantomData;

use pagewise_replay::usage::Usage;

/// A paper whose tables are requested by number.
pub(crate) trait Paper: Debug + Send + Sync + 'static {
    /// Added to the error that lists the numbers.
    const NOTE: &str = "";

    /// Returns the numbers of its tables, in the paper's order.
    fn numbers() -> Vec<&'static str>;
}

/// The options of every paper.
#[derive(Debug, clap::Args)]
pub(crate) struct Asked<P: Paper> {
    /// Only this table; may be given more than once
    #[arg(long = "table", value_name = "NUMBER", value_parser = parse_number::<P>)]
    tables: Vec<&'static str>,
    /// Figures as JSON: an array of objects with table, row, column, published, published_is
    /// (printed or derived), ours, within (the table's tolerance); after each table one with table,
    /// title, verdict (rows, within, pairs, in_order, missed, summary)
    #[arg(long)]
    pub(crate) json: bool,
    #[arg(skip)]
    paper: PhantomData<P>,
}

impl<P: Paper> Asked<P> {
    /// Returns the requested tables in order; all by default.
    pub(crate) fn tables(&self) -> Vec<&'static str> {
        if self.tables.is_empty() { P::numbers() } else { self.tables.clone() }
    }

    /// Returns whether tables are requested by number.
    pub(crate) fn is_explicit(&self) -> bool {
        !self.tables.is_empty()
    }

    /// Returns whether this table is requested.
    pub(crate) fn has(&self, number: &str) -> bool {
        self.tables().contains(&number)
    }
}

/// The options of papers whose experiments are random, and can be shortened.
#[derive(Debug, clap::Args)]
pub(crate) struct Random {
    /// Short runs, for a quick look; figures are inaccurate
    #[arg(long)]
    pub(crate) quick: bool,
    /// Seed of the random choices: the same seed gives the same figures
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Returns the table with this number.
fn parse_number<P: Paper>(text: &str) -> Result<&'static str, Usage> {
    let numbers = P::numbers();
    let found = numbers.iter().copied().find(|number| number.eq_ignore_ascii_case(text));
    found.ok_or_else(|| Usage(format!("available tables: {}{}", numbers.join(", "), P::NOTE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Short;

    impl Paper for Short {
        fn numbers() -> Vec<&'static str> {
            vec!["I", "IV"]
        }
    }

    #[test]
    fn an_unknown_table_number_lists_the_known_ones() {
        assert!(matches!(parse_number::<Short>("iv"), Ok("IV")));
        let Err(Usage(message)) = parse_number::<Short>("V") else { panic!("there is no V") };
        assert_eq!(message, "available tables: I, IV");
    }
}
