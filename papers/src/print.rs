//! What the subcommands of all papers share: tables chosen by number, printed as text or as JSON.

use std::process::ExitCode;

use pagewise_replay::output;
use pagewise_replay::usage::Usage;
use serde_json::Value;

use super::table::Table;

/// The table of this number among those there are.
///
/// # Errors
/// If there is none: which there are.
pub(super) fn numbered<T>(
    text: &str,
    tables: impl IntoIterator<Item = (&'static str, T)>,
) -> Result<T, Usage> {
    let mut numbers = Vec::new();
    for (number, table) in tables {
        if number.eq_ignore_ascii_case(text) {
            return Ok(table);
        }
        numbers.push(number);
    }
    Err(Usage(format!("there are the tables {}", numbers.join(", "))))
}

/// Prints tables as they come, or all of their figures at the end.
#[derive(Debug)]
pub(super) struct Printer {
    /// The figures so far, if they are to be JSON.
    figures: Option<Vec<Value>>,
}

impl Printer {
    pub(super) fn new(json: bool) -> Self {
        Self { figures: json.then(Vec::new) }
    }

    /// Prints a line that is none of the figures.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn say(&self, line: &str) -> anyhow::Result<()> {
        if self.figures.is_none() { output::print_line(line) } else { Ok(()) }
    }

    /// Prints a table.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn table(&mut self, table: &Table) -> anyhow::Result<()> {
        match &mut self.figures {
            Some(figures) => figures.extend(table.json()),
            None => output::print_line(&format!("\n{}", table.text()))?,
        }
        Ok(())
    }

    /// Prints what is left to print.
    ///
    /// # Errors
    /// If the figures cannot be written as JSON.
    pub(super) fn finish(self) -> anyhow::Result<ExitCode> {
        if let Some(figures) = self.figures {
            output::print_json(&figures)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_chosen_by_its_number_or_all_numbers_are_told() {
        let tables = [("I", 1), ("IV", 4)];
        assert!(matches!(numbered("iv", tables), Ok(4)));
        let Err(Usage(message)) = numbered("V", tables) else { panic!("there is no V") };
        assert_eq!(message, "there are the tables I, IV");
    }
}
