//! Text for a terminal of 80 columns.

use textwrap::Options;

/// Columns of a terminal.
const WIDTH: usize = 80;

/// Text in lines; all but the first are indented.
pub(crate) fn paragraph(text: &str) -> String {
    textwrap::fill(text, Options::new(WIDTH).subsequent_indent("  "))
}

/// Text in the last column of a table, which begins with `before`: what does not fit goes on below, in that
/// column.
pub(crate) fn last_column(before: &str, text: &str) -> String {
    let indent = " ".repeat(before.chars().count());
    textwrap::fill(text, Options::new(WIDTH).initial_indent(before).subsequent_indent(&indent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_last_column_goes_on_below_itself() {
        let text = last_column(" 0.871  ", &"word ".repeat(30));
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= WIDTH));
        assert!(lines[0].starts_with(" 0.871  word") && lines[1].starts_with("        word"));
    }
}
