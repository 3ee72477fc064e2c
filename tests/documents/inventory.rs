//! Generates `UNSAFE.md`: the `unsafe` code of the shipped packages, file by file, with the reasons
//! that the sources give.
//!
//! Tokens are counted, so comments and strings do not count. Reasons are the `SAFETY` comments and
//! the doc paragraphs that begin with "Invariant". Test code is left out.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The shipped packages: heading, and folder of the sources.
const PACKAGES: [(&str, &str); 4] = [
    ("The library", "src"),
    ("Traces", "trace/src"),
    ("`libpagewise.so`", "preload/malloc/src"),
    ("The recorder", "preload/record/src"),
];

const HEAD: &str = "\
# What is unsafe, and what it relies on

Every file of the library and of `libpagewise.so` that has `unsafe` code: blocks, unsafe functions,
unsafe implementations and traits, attributes and `extern` blocks; then its reasons, the `SAFETY`
comments, with the number of times if more than once. \"The caller guarantees\" refers to the
function's own `# Safety` section. Invariants that structures keep come first. Tests are left out.

This page is generated from the sources by `WRITE=1 cargo test --test documents`.
";

/// Number of unsafe items in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    blocks: usize,
    functions: usize,
    implementations: usize,
    /// `unsafe(…)` attributes and `unsafe extern` blocks.
    others: usize,
}

impl Counts {
    fn row(self) -> String {
        let Self { blocks, functions, implementations, others } = self;
        format!("{blocks} | {functions} | {implementations} | {others}")
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.functions += other.functions;
        self.implementations += other.implementations;
        self.others += other.others;
    }
}

/// What was found in a source file.
#[derive(Debug, Default)]
struct Source {
    counts: Counts,
    /// Test-only modules in files of their own.
    tests: Vec<String>,
    /// Ranges of lines of test code, first and last.
    test_lines: Vec<(usize, usize)>,
}

impl Source {
    fn parse(text: &str) -> Self {
        let mut source = Self::default();
        source.read(text.parse().expect("it is Rust"));
        source
    }

    fn read(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut index = 0;
        while let Some(token) = tokens.get(index) {
            index += 1;
            match token {
                TokenTree::Punct(sign)
                    if sign.as_char() == '#' && is_for_tests(tokens.get(index)) =>
                {
                    index = self.skip(&tokens, index);
                }
                TokenTree::Ident(word) if word == "unsafe" => self.count(&tokens[index..]),
                TokenTree::Group(group) => self.read(group.stream()),
                _ => {}
            }
        }
    }

    /// Counts the item that follows the word `unsafe`; function pointer types do not count.
    fn count(&mut self, after: &[TokenTree]) {
        let word = |index: usize| match after.get(index) {
            Some(TokenTree::Ident(word)) => word.to_string(),
            // An ABI.
            Some(TokenTree::Literal(_)) => "\"\"".to_owned(),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                "{".to_owned()
            }
            Some(TokenTree::Group(_)) => "(".to_owned(),
            _ => String::new(),
        };
        let words: Vec<_> = (0..4).map(word).collect();
        let counts = &mut self.counts;
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["{", ..] => counts.blocks += 1,
            ["impl" | "trait", ..] => counts.implementations += 1,
            ["(", ..] | ["extern", "{", ..] | ["extern", "\"\"", "{", _] => counts.others += 1,
            // A function pointer type has no name.
            ["fn", "(" | "", ..]
            | ["extern", "fn", "(" | "", _]
            | ["extern", "\"\"", "fn", "(" | ""] => {}
            ["fn", ..] | ["extern", ..] => counts.functions += 1,
            ref other => panic!("unsafe {other:?}"),
        }
    }

    /// Skips the item after an attribute; returns the index after it.
    fn skip(&mut self, tokens: &[TokenTree], attribute: usize) -> usize {
        let first = tokens[attribute].span().start().line;
        let mut module = None;
        for (index, token) in tokens.iter().enumerate().skip(attribute + 1) {
            let end = match token {
                TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                TokenTree::Punct(sign) => sign.as_char() == ';',
                _ => false,
            };
            if end {
                if let TokenTree::Punct(_) = token {
                    self.tests.extend(module);
                }
                self.test_lines.push((first, token.span().end().line));
                return index + 1;
            }
            if let (TokenTree::Ident(word), Some(TokenTree::Ident(name))) =
                (token, tokens.get(index + 1))
                && word == "mod"
            {
                module = Some(name.to_string());
            }
        }
        panic!("an attribute without an item in line {first}");
    }
}

/// Returns whether an attribute's brackets are `cfg(test)` or `cfg(all(test, …))`.
fn is_for_tests(brackets: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Group(brackets)) = brackets else { return false };
    let names = |group: &Group, name: &str| {
        let mut tokens = group.stream().into_iter();
        tokens.any(|token| matches!(token, TokenTree::Ident(word) if word == name))
    };
    let inner = |group: &Group| {
        group.stream().into_iter().find_map(|token| match token {
            TokenTree::Group(group) => Some(group),
            _ => None,
        })
    };
    let Some(condition) = inner(brackets).filter(|_| names(brackets, "cfg")) else { return false };
    names(&condition, "test")
        || names(&condition, "all") && inner(&condition).is_some_and(|all| names(&all, "test"))
}

/// The `SAFETY:` comments and documented invariants outside tests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reasons {
    invariants: Vec<String>,
    /// Reasons in order of first occurrence, with the number of occurrences.
    safety: Vec<(String, usize)>,
}

impl Reasons {
    fn parse(text: &str, left_out: &[(usize, usize)]) -> Self {
        let mut reasons = Self::default();
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        let kept = |index: usize| {
            !left_out.iter().any(|&(first, last)| (first..=last).contains(&(index + 1)))
        };
        for (index, line) in lines.iter().enumerate().filter(|&(index, _)| kept(index)) {
            if let Some(first) = line.strip_prefix("// SAFETY:") {
                let more = lines[index + 1..].iter();
                let more = more.map_while(|line| line.strip_prefix("// ")).map(str::trim);
                let reason = sentence(std::iter::once(first.trim()).chain(more));
                match reasons.safety.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, times)) => *times += 1,
                    None => reasons.safety.push((reason, 1)),
                }
            }
            let documentation = ["/// ", "//! "].into_iter().find(|sign| line.starts_with(sign));
            if let Some(sign) = documentation
                && let Some(at) = line.find("Invariant")
                && (line[at..].contains(':') || line[at..].contains(','))
            {
                let more = lines[index + 1..].iter().map_while(|line| line.strip_prefix(sign));
                // A list may stand in a paragraph of its own after "Invariants:".
                let more = more.take_while(|line| !line.starts_with("```")).map(str::trim);
                reasons.invariants.push(sentence(std::iter::once(&line[at..]).chain(more)));
            }
        }
        reasons
    }
}

/// Joins the lines of a comment, and capitalises the first letter.
fn sentence<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let text = lines.collect::<Vec<_>>().join(" ");
    // Links of the documentation do not resolve from here.
    let text = unlinked(&text);
    let mut letters = text.chars();
    letters
        .next()
        .map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// Removes the brackets and targets of links.
fn unlinked(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain += before;
        let end = link.find(']').map(|end| (&link[..end], &link[end + 1..]));
        let target = end.and_then(|(_, after)| after.strip_prefix('(')?.split_once(')'));
        rest = match (end, target) {
            (Some((name, _)), Some((_, behind))) => {
                plain += name;
                behind
            }
            (Some((name, after)), None) if name.starts_with('`') => {
                plain += name;
                after
            }
            _ => {
                plain.push('[');
                link
            }
        };
    }
    plain + rest
}

/// Returns the paths of all source files below a folder, except test files.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = BTreeSet::new();
    collect(folder, &mut all);
    let mut tests = BTreeSet::new();
    for file in &all {
        let source = Source::parse(&fs::read_to_string(file).expect("text"));
        let stem = file.file_stem().expect("a file").to_str().expect("a name");
        let parent = file.parent().expect("a folder");
        let own =
            if matches!(stem, "mod" | "lib" | "main") { parent.into() } else { parent.join(stem) };
        for module in source.tests {
            tests.insert(own.join(format!("{module}.rs")));
            tests.insert(own.join(module));
        }
    }
    all.into_iter().filter(|file| !file.ancestors().any(|path| tests.contains(path))).collect()
}

fn collect(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.insert(path);
        }
    }
}

/// Returns the text of the page.
fn page(root: &Path) -> String {
    let mut tables = String::new();
    let mut reasons_of_all = String::new();
    let mut sum = Counts::default();
    let (mut with, mut without) = (0, 0);
    for (heading, folder) in PACKAGES {
        write!(reasons_of_all, "\n## {heading}\n").expect("a string");
        for file in files(&root.join(folder)) {
            let text = fs::read_to_string(&file).expect("text");
            let source = Source::parse(&text);
            if source.counts == Counts::default() {
                without += 1;
                continue;
            }
            with += 1;
            sum += source.counts;
            let path = file.strip_prefix(root).expect("it lies below").display().to_string();
            writeln!(tables, "| [{path}]({path}) | {} |", source.counts.row()).expect("a string");
            write!(reasons_of_all, "\n**{path}**\n\n").expect("a string");
            let reasons = Reasons::parse(&text, &source.test_lines);
            for invariant in reasons.invariants {
                // Lists of invariants keep their hyphens; drop them.
                let invariant = invariant.replace(": - ", ": ").replace("; - ", "; ");
                writeln!(reasons_of_all, "- {invariant}").expect("a string");
            }
            for (reason, times) in reasons.safety {
                let times = if times > 1 { format!(" ({times} ×)") } else { String::new() };
                writeln!(reasons_of_all, "- {reason}{times}").expect("a string");
            }
        }
    }
    format!(
        "{HEAD}\n## Counts\n\n\
         {with} files; {without} others have no unsafe code.\n\n\
         | file | blocks | functions | implementations, traits | attributes, `extern` |\n|---|---:|---:|---:|---:|\n\
         {tables}| **all** | {} |\n{reasons_of_all}",
        sum.row()
    )
}

#[test]
fn the_unsafe_inventory_is_up_to_date() {
    let path = super::root().join("UNSAFE.md");
    let page = page(super::root());
    if std::env::var_os("WRITE").is_some() {
        fs::write(&path, &page).expect("the page is written");
    }
    let written = fs::read_to_string(path).expect("text");
    let stale = page.lines().zip(written.lines()).find(|(now, then)| now != then);
    let refresh = "`WRITE=1 cargo test --test documents` writes it anew";
    assert!(page == written, "UNSAFE.md is stale ({refresh}); first at {stale:?}");
}

#[test]
fn unsafe_items_are_counted() {
    let text = r#"
        //! Invariant: there is
        //! one.
        // unsafe { in_a_comment() }
        const TEXT: &str = "unsafe { in_a_string() }";
        unsafe extern "C" { fn f(); }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn g(h: unsafe extern "C" fn(), i: unsafe fn()) {
            // SAFETY: the caller's
            // promise of [`g`](f), [not a link] `a[i]`.
            unsafe { h() };
            // SAFETY: the caller's promise of [`g`], [not a link] `a[i]`.
            unsafe { i() }
        }
        unsafe impl Send for S {}
        #[cfg(test)]
        mod elsewhere;
        #[cfg(all(test, unix))]
        mod tests {
            // SAFETY: nothing.
            fn j() { unsafe { k() } }
        }
        #[cfg(not(test))]
        unsafe fn l() {}
    "#;
    let source = Source::parse(text);
    assert_eq!(source.counts, Counts { blocks: 2, functions: 2, implementations: 1, others: 2 });
    assert_eq!(source.tests, ["elsewhere"]);
    let reasons = Reasons::parse(text, &source.test_lines);
    assert_eq!(reasons.invariants, ["Invariant: there is one."]);
    assert_eq!(
        reasons.safety,
        [("The caller's promise of `g`, [not a link] `a[i]`.".to_owned(), 2)]
    );
}
