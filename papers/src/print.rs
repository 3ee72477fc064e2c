//! Tables printed as text or as JSON.

use std::process::ExitCode;

use pagewise_replay::output;
use pagewise_replay::text::paragraphs;
use serde_json::Value;

use super::table::Table;
use super::verdict;

/// Prints tables as they are made, each with its verdict; or all figures as JSON at the end.
#[derive(Debug)]
pub(super) struct Printer {
    /// The figures so far, for JSON output.
    figures: Option<Vec<Value>>,
}

impl Printer {
    pub(super) fn new(json: bool) -> Self {
        Self { figures: json.then(Vec::new) }
    }

    /// Prints a line that is not part of the figures.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn say(&self, line: &str) -> anyhow::Result<()> {
        if self.figures.is_none() { output::print_line(line) } else { Ok(()) }
    }

    /// Prints a table and its comparison.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn table(&mut self, table: &Table) -> anyhow::Result<()> {
        match &mut self.figures {
            Some(figures) => {
                figures.extend(table.json());
                figures.push(verdict::json(table));
            }
            None => {
                let verdict = verdict::lines(table);
                let verdict: String = verdict.iter().map(|line| format!("  {line}\n")).collect();
                output::print_line(&paragraphs(&format!("\n{}{verdict}", table.text())))?;
            }
        }
        Ok(())
    }

    /// Prints the remaining output.
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
