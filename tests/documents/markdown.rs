//! Links, headings, code and tables of a Markdown document.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

#[derive(Debug, Default)]
pub(super) struct Document {
    /// Targets of links and images.
    pub(super) links: Vec<String>,
    /// Anchors of its headings.
    pub(super) anchors: Vec<String>,
    /// Fenced code blocks: language and the rest of its line, then the text.
    pub(super) code: Vec<(String, String)>,
    /// Lines of tables that readers do not see as they were meant: in a paragraph, or with more or
    /// fewer cells than the table has columns.
    pub(super) broken_rows: Vec<String>,
}

impl Document {
    pub(super) fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let (mut heading, mut code) = (None::<String>, None::<(String, String)>);
        for (event, place) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Table(columns)) => {
                    let rows = text[place].lines().filter(|row| cells(row) != columns.len());
                    document.broken_rows.extend(rows.map(str::to_owned));
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let name = anchor(&heading.take().expect("it began"));
                    document.anchors.push(name);
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                    code = Some((language.into_string(), String::new()));
                }
                Event::End(TagEnd::CodeBlock) => document.code.extend(code.take()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some((_, code)) = &mut code {
                        code.push_str(&text);
                    } else if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    } else if text.contains("|---|") {
                        document.broken_rows.push(text.into_string());
                    }
                }
                _ => {}
            }
        }
        document
    }
}

/// Returns the number of cells of a table's row.
fn cells(row: &str) -> usize {
    row.replace("\\|", "").matches('|').count().saturating_sub(1)
}

/// Returns a heading's anchor as most repository hosts make it: lower case, blanks as hyphens,
/// other punctuation dropped.
fn anchor(heading: &str) -> String {
    let small = heading.to_lowercase();
    let kept = small.chars().filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn parts_of_a_document_are_found() {
    let document = Document::parse(
        "# A `title`, once\n[a](b.md#c) and [d][e]\n```rust\nfn f() {}\n```\n|x|\n|-|\n|[y](z)|\n\n[e]: g.md\n",
    );
    assert_eq!(document.anchors, ["a-title-once"]);
    assert_eq!(document.links, ["b.md#c", "g.md", "z"]);
    assert_eq!(document.code, [("rust".to_owned(), "fn f() {}\n".to_owned())]);
    assert_eq!(document.broken_rows, [""; 0]);
}

#[test]
fn broken_tables_are_found() {
    let rows = Document::parse("|a|b|\n|---|---|\n|c|`x|y`|\n|d|`x\\|y`|\n").broken_rows;
    assert_eq!(rows, ["|c|`x|y`|"]);
    let rows = Document::parse("- a\n\n  |a|b| |---|---| |c\n  |d|\n").broken_rows;
    assert_eq!(rows, ["|a|b| |---|---| |c"]);
}
