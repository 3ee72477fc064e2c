//! Makes foreign text safe to show: text from a trace or a file name goes to terminals, tables,
//! pages and code, and must not move a cursor, reverse a line or end one.

use std::borrow::Cow;

/// Returns whether a character does something other than stand for itself: controls (C0, C1,
/// delete), characters that set or override the direction of text, invisible and interlinear format
/// characters, tags, line and paragraph separators, and code points that are no characters, which
/// an SVG file must not contain.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
        || matches!(c, '\u{fdd0}'..='\u{fdef}')
        || u32::from(c) & 0xfffe == 0xfffe
}

/// Escapes such characters in a text of one line, as `\n` or `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

/// As [`printable`], for a text of several lines: line ends are kept.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && acts(c))
}

fn escaped(text: &str, acts: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&acts) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            _ if !acts(c) => safe.push(c),
            '\n' | '\r' | '\t' => safe.extend(c.escape_default()),
            _ => safe.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(safe)
}

/// Escapes such characters in JSON, where they occur only in strings, as `\u202e`.
pub fn printable_json(json: String) -> String {
    if !json.contains(|c| c != '\n' && acts(c)) {
        return json;
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if c == '\n' || !acts(c) {
            safe.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    safe
}

/// Escapes a text for a cell of a Markdown table.
pub fn printable_markdown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in printable(text).chars() {
        if c.is_ascii_punctuation() && !"-_.,:".contains(c) {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "\u{1b}]0;x\u{7}\0a\u{202e}b\u{9b}c\u{e0041}\u{ffff}\r\n";

    #[test]
    fn control_characters_are_escaped() {
        let safe = printable(HOSTILE);
        assert!(!safe.contains(acts), "{safe}");
        assert_eq!(safe, r"\u{1b}]0;x\u{7}\u{0}a\u{202e}b\u{9b}c\u{e0041}\u{ffff}\r\n");
        assert_eq!(printable("grüße, 日本 — 🦀"), "grüße, 日本 — 🦀");
        assert_eq!(printable_lines("a\tb\nc\r\n"), "a\\tb\nc\\r\n");
    }

    #[test]
    fn escaped_json_is_equivalent() {
        let json = serde_json::to_string(&[HOSTILE]).expect("a text");
        let safe = printable_json(json);
        assert!(!safe.contains(acts), "{safe}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).expect("JSON"), [HOSTILE]);
    }

    #[test]
    fn a_cell_of_markdown_stays_one() {
        assert_eq!(printable_markdown("a|b<i>`c`\n"), r"a\|b\<i\>\`c\`\\n");
        assert_eq!(printable_markdown("gawk-5.1_x"), "gawk-5.1_x");
    }
}
