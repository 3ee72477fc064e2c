//! Checks what the documents say about the repository: links resolve, Rust snippets compile, and
//! the list of strategies matches the catalogue.

#[cfg(target_os = "linux")]
#[path = "../executable/mod.rs"]
mod executable;
mod inventory;
mod markdown;
mod platforms;
#[cfg(target_os = "linux")]
mod wine;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use markdown::Document;
use pagewise::catalogue;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns all documents of the repository, by their paths in it.
fn documents() -> BTreeMap<PathBuf, Document> {
    let mut documents = BTreeMap::new();
    for folder in ["", "docs", "benches/records", "fuzz", "trace", "traces"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path).expect("text");
                let path = path.strip_prefix(root()).expect("it lies below").to_owned();
                documents.insert(path, Document::parse(&text));
            }
        }
    }
    documents
}

/// Returns why a link in the document at this path does not resolve, if it does not.
fn broken(documents: &BTreeMap<PathBuf, Document>, from: &Path, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let mut to = if path.is_empty() { from.to_owned() } else { PathBuf::new() };
    if !path.is_empty() {
        for part in from.parent().expect("a file").join(path).iter() {
            match part.to_str() {
                Some("..") if !to.pop() => return Some("it leads out of the repository".into()),
                Some("..") => {}
                _ => to.push(part),
            }
        }
    }
    if path.starts_with('/') || !root().join(&to).exists() {
        return Some("there is no such file".into());
    }
    let headings = |document: &Document| document.anchors.iter().any(|known| known == anchor);
    match documents.get(&to) {
        _ if anchor.is_empty() => None,
        Some(document) if headings(document) => None,
        Some(_) => Some("there is no such heading".into()),
        None => Some("an anchor, but not into a document".into()),
    }
}

#[test]
fn every_link_resolves() {
    let documents = documents();
    for document in ["README.md", "CONTRIBUTING.md", "docs/global.md"] {
        let links = &documents[Path::new(document)].links;
        assert!(links.len() > 5, "{document} has links");
    }
    let mut faults = String::new();
    for (from, document) in &documents {
        for link in &document.links {
            if let Some(fault) = broken(&documents, from, link) {
                faults += &format!("{}: {link}: {fault}\n", from.display());
            }
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

#[test]
fn every_table_is_shown_as_one() {
    let documents = documents();
    let broken = documents.iter().filter(|(_, document)| !document.broken_rows.is_empty());
    let broken: Vec<_> = broken.map(|(path, document)| (path, &document.broken_rows)).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn a_broken_link_is_detected() {
    let documents = documents();
    let of_readme = |link| broken(&documents, Path::new("README.md"), link).is_some();
    let of_arena = |link| broken(&documents, Path::new("docs/arena.md"), link).is_some();
    assert!(!of_readme("docs/arena.md") && !of_readme("#an-arena") && !of_readme("src"));
    assert!(of_readme("arena.md") && of_readme("#no-arena") && of_readme("../README.md"));
    assert!(of_readme("/docs/arena.md") && of_readme("src/lib.rs#L1"));
    assert!(!of_arena("global.md#what-can-be-set") && !of_arena("../README.md#try-it"));
    assert!(of_arena("docs/global.md") && of_arena("global.md#what-cannot-be-set"));
}

/// Returns the manifest's features that the documentation's landing page does not mention.
fn unmentioned<'a>(manifest: &'a str, library: &str) -> Vec<&'a str> {
    let features = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
    let names = features.take_while(|line| !line.starts_with('[')).filter_map(|line| {
        let (name, _) = line.split_once(" = ")?;
        (!line.starts_with('#') && name != "default").then_some(name)
    });
    names.filter(|name| !library.contains(&format!("//! - `{name}`"))).collect()
}

#[test]
fn every_feature_is_documented() {
    let source = |path| fs::read_to_string(root().join(path)).expect("text");
    let manifest = source("Cargo.toml");
    assert_eq!(unmentioned(&manifest, &source("src/lib.rs")), [""; 0]);
    let all = unmentioned(&manifest, "");
    assert!(all.contains(&"std") && all.contains(&"guarded"), "{all:?}");
}

/// Returns the text of `docs/catalogue.md`, made from the catalogue.
fn catalogue() -> String {
    let mut text = String::from(
        "# All strategies\n\n\
         Their names, for `--strategy` and `catalogue::find`, by family; [what they are](strategies.md).\n\
         O(n): an allocation or a free may visit every free block. This page is made of\n\
         `src/catalogue/` by `WRITE=1 cargo test --test documents`.\n",
    );
    for family in catalogue::families() {
        text += &format!("\n## {}\n\n{}\n\n", family.name, family.source);
        text += "| strategy | | |\n|---|---|---|\n";
        for entry in family.entries {
            let linear = if entry.linear { "; O(n)" } else { "" };
            text += &format!("| {} | {}{linear} | {} |\n", entry.name, entry.about, entry.source);
        }
    }
    text
}

#[test]
fn every_strategy_is_documented() {
    let path = root().join("docs/catalogue.md");
    if std::env::var_os("WRITE").is_some() {
        fs::write(&path, catalogue()).expect("the page is written");
    }
    let page = fs::read_to_string(path).expect("text");
    assert!(
        page == catalogue(),
        "docs/catalogue.md differs from the catalogue: see its first lines"
    );
}

/// Every Rust snippet is a documentation test: a library includes its document. Readers see
/// everything the snippet needs: lines that rustdoc would hide are visible elsewhere.
#[test]
fn every_snippet_is_compiled() {
    let source = |path| fs::read_to_string(root().join(path)).expect("a library");
    let (library, traces) = (source("src/lib.rs"), source("trace/src/lib.rs"));
    let mut snippets = 0;
    for (path, document) in documents() {
        let (library, path_there) = match path.strip_prefix("trace") {
            Ok(below) => (&traces, below),
            Err(_) => (&library, &*path),
        };
        let included = format!("include_str!(\"../{}\")", path_there.display());
        for (language, code) in &document.code {
            if language.split(',').next() == Some("rust") {
                assert_eq!(language, "rust", "{}: a snippet that is not run", path.display());
                assert!(library.contains(&included), "{} is not tested", path.display());
                let hidden = code.lines().any(|line| line.starts_with("# "));
                assert!(!hidden, "{}: a hidden line\n{code}", path.display());
                snippets += 1;
            }
        }
    }
    assert!(snippets >= 3, "{snippets} snippets");
}

/// Returns an error if the repository has no test of this name, `file::test`. A test may be a
/// function or a row of a macro.
fn missing(test: &str) -> Option<String> {
    let Some((file, name)) = test.split_once("::") else { return Some("no `file::test`".into()) };
    let Ok(text) = fs::read_to_string(root().join(file)) else {
        return Some("no such file".into());
    };
    let found = text.lines().map(str::trim_start).any(|line| {
        let named = line.strip_prefix("fn ").unwrap_or(line).strip_prefix(name);
        named.is_some_and(|rest| rest.trim_start().starts_with(['(', ':', ',']))
    });
    (!found).then(|| "no such test".into())
}

#[test]
fn every_promise_names_its_test() {
    let text = fs::read_to_string(root().join("docs/promises.md")).expect("the promises");
    let mut faults = String::new();
    let mut promises = 0;
    for row in text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")) {
        let (_, held_by) = row.rsplit_once(" | ").expect("a row has cells");
        if held_by == "held by" {
            continue;
        }
        promises += 1;
        for test in held_by.split(", ") {
            if let Some(fault) = missing(test.trim_matches('`')) {
                faults += &format!("{test}: {fault}\n");
            }
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
    assert!(promises > 40, "{promises} promises");
}

/// `tests/guards/run.sh`, which takes the guards out, is run by hand.
#[test]
fn every_guard_is_in_its_file() {
    let text = fs::read_to_string(root().join("tests/guards/guards.txt")).expect("the guards");
    let (mut test, mut file, mut guards) = ("", "", 0);
    let mut faults = String::new();
    for line in text.lines() {
        match line.split_once(' ') {
            Some(("test", rest)) => test = rest,
            Some(("file", rest)) => file = rest,
            Some(("-", guard)) => {
                guards += 1;
                if let Some(fault) = missing(test) {
                    faults += &format!("{test}: {fault}\n");
                }
                if !fs::read_to_string(root().join(file)).is_ok_and(|text| text.contains(guard)) {
                    faults += &format!("{file}: no `{guard}`\n");
                }
            }
            _ => {}
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
    assert!(guards > 20, "{guards} guards");
}

#[test]
fn a_missing_test_is_detected() {
    let this = "tests/documents/main.rs::";
    assert!(missing(&format!("{this}a_missing_test_is_detected")).is_none());
    assert!(missing("tests/survive/refused_calls.rs::munmap").is_none());
    assert!(missing(&format!("{this}a_missing_test")).is_some());
    assert!(missing("tests/documents/nothing.rs::missing").is_some());
    assert!(missing("a_missing_test_is_detected").is_some());
}
