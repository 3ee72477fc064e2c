//! Text for a terminal of 80 columns.

use textwrap::Options;

/// Columns of a terminal.
const WIDTH: usize = 80;

/// Wraps text in lines; all but the first are indented.
pub fn paragraph(text: &str) -> String {
    textwrap::fill(text, Options::new(WIDTH).subsequent_indent("  "))
}

/// Formats text in the last column of a table, after `before`: text that does not fit continues
/// below, in that column.
pub fn last_column(before: &str, text: &str) -> String {
    let indent = " ".repeat(before.chars().count());
    textwrap::fill(text, Options::new(WIDTH).initial_indent(before).subsequent_indent(&indent))
}

/// Wraps the paragraphs of a text, each with its indentation; tables are left unchanged: lines with
/// more than one blank between words.
pub fn paragraphs(text: &str) -> String {
    let line = |line: &str| {
        let words = line.trim_start();
        if line.chars().count() <= WIDTH || words.contains("  ") {
            return line.to_owned();
        }
        let indent = &line[..line.len() - words.len()];
        textwrap::fill(words, Options::new(WIDTH).initial_indent(indent).subsequent_indent(indent))
    };
    let lines: Vec<String> = text.split('\n').map(line).collect();
    lines.join("\n")
}

/// Formats a word of a command line for a shell, with quotes if it needs them.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Formats suggestions for the next step: those that apply.
pub fn next<'s>(suggestions: impl IntoIterator<Item = Option<&'s str>>) -> String {
    let suggestions: Vec<_> = suggestions.into_iter().flatten().collect();
    paragraph(&format!("Next: {}.", suggestions.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_that_do_not_apply_are_left_out() {
        assert_eq!(next([Some("a b"), None, Some("c")]), "Next: a b, c.");
    }

    #[test]
    fn a_long_last_column_goes_on_below_itself() {
        let text = last_column(" 0.871  ", &"word ".repeat(30));
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= WIDTH));
        assert!(lines[0].starts_with(" 0.871  word") && lines[1].starts_with("        word"));
    }

    #[test]
    fn paragraphs_are_wrapped_and_tables_are_not() {
        let (prose, row) = (format!("  {}", "word ".repeat(30).trim_end()), "1,000  ".repeat(20));
        let text = paragraphs(&format!("{prose}\n{row}\nshort"));
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("  word") && lines[1].starts_with("  word"), "{text}");
        assert_eq!(lines[2..], [&row, "short"]);
    }
}
