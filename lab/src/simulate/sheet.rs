//! A table as rows of texts, printed plainly or as Markdown.

use comfy_table::{Cell, CellAlignment, Table, presets};

/// Heads and rows of the same length. The first column is a name, the others are figures.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Sheet {
    /// Columns side by side, the figures to the right.
    pub(super) fn plain(&self) -> String {
        let aligned = |texts: &[String]| {
            let cells = texts.iter().enumerate().map(|(index, text)| match index {
                0 => Cell::new(text),
                _ => Cell::new(text).set_alignment(CellAlignment::Right),
            });
            cells.collect::<Vec<_>>()
        };
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(aligned(&self.heads));
        self.rows.iter().for_each(|row| {
            table.add_row(aligned(row));
        });
        let text = table.to_string();
        text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    /// As Markdown.
    pub(super) fn markdown(&self) -> String {
        let line = |texts: &[String]| {
            let texts: Vec<_> = texts.iter().map(|text| text.trim()).collect();
            format!("| {} |\n", texts.join(" | "))
        };
        let rule = format!("|---|{}\n", "---:|".repeat(self.heads.len() - 1));
        line(&self.heads) + &rule + &self.rows.iter().map(|row| line(row)).collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_has_two_faces() {
        let sheet = Sheet {
            heads: vec!["strategy".into(), "faults".into()],
            rows: vec![vec!["MRU".into(), "7 *".into()]],
        };
        assert_eq!(sheet.markdown(), "| strategy | faults |\n|---|---:|\n| MRU | 7 * |\n");
        let plain = sheet.plain();
        assert_eq!(
            plain.split_whitespace().collect::<Vec<_>>(),
            ["strategy", "faults", "MRU", "7", "*"]
        );
    }
}
