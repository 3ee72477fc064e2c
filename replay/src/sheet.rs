//! A table of texts: [`Sheet`], printed as plain text or as Markdown.

use comfy_table::{Cell, CellAlignment, Table, presets};

/// Heads and rows of the same length. One column has names and is aligned left, the others have
/// figures and are aligned right.
#[derive(Clone, Debug)]
pub struct Sheet {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
    names: usize,
}

impl Sheet {
    /// Makes an empty sheet with these heads. The first column has the names.
    pub fn new(heads: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { heads: heads.into_iter().map(Into::into).collect(), rows: Vec::new(), names: 0 }
    }

    /// Returns the same sheet with the names in another column.
    #[must_use]
    pub fn with_names_in(self, column: usize) -> Self {
        Self { names: column, ..self }
    }

    /// Adds a row.
    pub fn push(&mut self, row: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// Returns the sheet with these rows appended.
    #[must_use]
    pub fn with_rows(
        mut self,
        rows: impl IntoIterator<Item = impl IntoIterator<Item = impl Into<String>>>,
    ) -> Self {
        rows.into_iter().for_each(|row| self.push(row));
        self
    }

    /// Formats the columns side by side, without trailing blanks.
    #[must_use]
    pub fn plain(&self) -> String {
        self.lines(self.table())
    }

    /// Like [`plain`](Self::plain), with two blanks between columns and none before the first.
    #[must_use]
    pub fn packed(&self) -> String {
        let mut table = self.table();
        table.column_iter_mut().for_each(|column| {
            column.set_padding((0, 2));
        });
        self.lines(table)
    }

    fn table(&self) -> Table {
        let aligned = |texts: &[String]| {
            let cells = texts.iter().enumerate().map(|(index, text)| {
                let right = index != self.names;
                let side = if right { CellAlignment::Right } else { CellAlignment::Left };
                Cell::new(text).set_alignment(side)
            });
            cells.collect::<Vec<_>>()
        };
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(aligned(&self.heads));
        self.rows.iter().for_each(|row| {
            table.add_row(aligned(row));
        });
        table
    }

    fn lines(&self, table: Table) -> String {
        table.to_string().lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    /// Formats the sheet as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |texts: &[String]| {
            let texts: Vec<_> = texts.iter().map(|text| text.trim()).collect();
            format!("| {} |\n", texts.join(" | "))
        };
        let side = |column| if column == self.names { "---|" } else { "---:|" };
        let rule: String = (0..self.heads.len()).map(side).collect();
        line(&self.heads)
            + &format!("|{rule}\n")
            + &self.rows.iter().map(|row| line(row)).collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_is_markdown_plain_or_packed() {
        let sheet = Sheet::new(["strategy", "faults"]).with_rows([["MRU", "7 *"]]);
        assert_eq!(sheet.markdown(), "| strategy | faults |\n|---|---:|\n| MRU | 7 * |\n");
        assert_eq!(sheet.plain(), " strategy  faults\n MRU          7 *\n");
        assert_eq!(sheet.packed(), "strategy  faults\nMRU          7 *\n");
        let named = sheet.with_names_in(1);
        assert_eq!(named.packed(), "strategy  faults\n     MRU  7 *\n");
        assert!(named.markdown().contains("|---:|---|"));
    }
}
