//! Checks the order of the modules, and that files do not import in circles.
//!
//! **Order.** `src/lib.rs` lists its modules in a table; a module uses only those above it. So do
//! the folders of the global allocator, by the table in `src/global/native/mod.rs`, and the files
//! in each of them, by the table in its `mod.rs`.
//!
//! **Circles.** A file *imports* another if it names, in a `use` or in a path, something that the
//! other defines. No file of a crate may reach itself by imports. In particular:
//! - Re-exports are followed to the file that defines the name, so a `mod.rs` that defines nothing
//!   causes no circle.
//! - `mod x;` is not an import. Neither is the re-export of names from a module's own submodules,
//!   unless the file uses the name itself.
//! - A file that imports from its parent, while its parent imports from it, is a circle: code that
//!   both need belongs in a file of its own.
//! - Methods need no import: a child may implement some of its parent's methods.
//! - Tests and documentation do not count.

mod graph;
mod source;

use std::collections::BTreeSet;
use std::path::Path;

use graph::Graph;
use source::Crate;

/// The crates whose files must not import in circles.
const CRATES: &[&str] = &[
    "trace/src/lib.rs",
    "src/lib.rs",
    "replay/src/lib.rs",
    "papers/src/lib.rs",
    "lab/src/main.rs",
    "preload/malloc/src/lib.rs",
    "preload/record/src/lib.rs",
    "peers/model/src/main.rs",
];

#[test]
fn imports_have_no_cycles() {
    let mut found = BTreeSet::new();
    for root in CRATES {
        let source = Crate::read(&repository().join(root));
        let graph = Graph::of(&source);
        for circle in graph.circles() {
            println!("{}", graph.explain(&circle, repository()));
            found.extend(circle.into_iter().map(within_repository));
        }
    }
    println!("files in circles: {}", found.len());
    assert!(found.is_empty(), "files in circles: {found:#?}");
}

#[test]
fn a_module_uses_only_those_above_it() {
    let root = repository().join("src/lib.rs");
    let library = Crate::read(&root);
    let order = listed_modules(&std::fs::read_to_string(root).expect("the library has a root"));
    let mut listed = order.clone();
    listed.sort();
    assert_eq!(listed, library.top_modules(), "the table lists every module once");

    let rank = |module: &str| order.iter().position(|listed| listed == module);
    let upwards: Vec<_> = (library.imports())
        .filter(|import| {
            !import.from.is_empty() && import.from[0..1] != import.to[..1.min(import.to.len())]
        })
        // The root is above all modules: it may use each of them, and none may use it.
        .filter(|import| import.to.is_empty() || rank(&import.from[0]) < rank(&import.to[0]))
        .map(|import| format!("{} imports {}", import.from.join("::"), import.name.join("::")))
        .collect();
    assert!(upwards.is_empty(), "imports against the order of src/lib.rs: {upwards:#?}");
}

/// Checks the same within the global allocator. The extras at the end of its table are exempt: they
/// use the files that serve requests, and some of these use them.
#[test]
fn files_of_the_global_allocator_use_only_those_above() {
    const NATIVE: [&str; 2] = ["global", "native"];
    let library = Crate::read(&repository().join("src/lib.rs"));
    let table = |folder: &str| {
        let file = repository().join("src/global/native").join(folder).join("mod.rs");
        std::fs::read_to_string(file).expect("a folder has a `mod.rs`")
    };
    let text = table("");
    let (ordered, extras) = text.split_once("| **Extras**").expect("extras come last");
    let extras = listed(extras, "");
    let mut order = Vec::new();
    for folder in listed(ordered, "//! | folders,") {
        for file in listed(&table(&folder), "//! | files,") {
            order.push([folder.clone(), file]);
        }
    }

    let within = |path: &[String]| {
        let inside = path.strip_prefix(&NATIVE.map(str::to_owned))?;
        Some(inside[..inside.len().min(2)].to_vec())
    };
    let rank = |file: &[String]| order.iter().position(|listed| listed == file);
    let is_extra = |file: &[String]| file.first().is_some_and(|first| extras.contains(first));
    let mut unlisted = BTreeSet::new();
    let mut upwards = BTreeSet::new();
    for import in library.imports() {
        let (Some(from), Some(to)) = (within(import.from), within(import.to)) else { continue };
        for file in [&from, &to] {
            if rank(file).is_none() && !is_extra(file) {
                unlisted.insert(file.join("::"));
            }
        }
        if rank(&from).is_some() && rank(&to).is_some() && rank(&from) < rank(&to) {
            upwards.insert(format!("{} imports {}", from.join("::"), import.name.join("::")));
        }
    }
    assert!(unlisted.is_empty(), "not in the tables: {unlisted:#?}");
    assert!(upwards.is_empty(), "imports against the order of the tables: {upwards:#?}");
}

/// Returns the modules in the first column of the table in the root's documentation, top to bottom.
fn listed_modules(root: &str) -> Vec<String> {
    listed(root, "//! # The modules")
}

/// Returns the modules in the first column of the table after `heading`, top to bottom.
fn listed(text: &str, heading: &str) -> Vec<String> {
    let (_, table) = text.split_once(heading).expect("the table has a heading");
    let rows = table.lines().filter_map(|line| line.strip_prefix("//! | "));
    let first_cells = rows.filter_map(|row| row.split(" | ").next());
    let names = first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.map(str::to_owned).collect()
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn within_repository(file: &Path) -> String {
    let file = file.strip_prefix(repository()).expect("a crate lies in the repository");
    file.to_str().expect("a path in ASCII").replace('\\', "/")
}

#[test]
fn cycles_are_found_for_every_form_of_import() {
    let circles = |sources: &[(&str, &str)]| {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in sources {
            std::fs::write(folder.path().join(name), text).expect("the folder takes files");
        }
        let source = Crate::read(&folder.path().join("lib.rs"));
        Graph::of(&source).circles().iter().map(Vec::len).collect::<Vec<_>>()
    };
    let root = ("lib.rs", "mod a; mod b;");
    let b = ("b.rs", "use crate::a::A; pub struct B(A);");

    assert_eq!(circles(&[root, ("a.rs", "pub struct A;"), b]), []);
    for import in [
        "use crate::b::B;",
        "use {core::fmt, crate::{b::{self, B}}};",
        "fn f() -> super::b::B;",
        "use crate::b; fn f() -> b::B;",
        "use crate::b::*;",
        "macro_rules! m { () => { $crate::b::B } }",
    ] {
        assert_eq!(circles(&[root, ("a.rs", &format!("{import} struct A;")), b]), [2], "{import}");
    }
    for no_import in [
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "/// As [`B`](crate::b::B).",
        "use b::B;",
        "use crate::b;",
    ] {
        assert_eq!(circles(&[root, ("a.rs", &format!("{no_import} struct A;")), b]), []);
    }

    // A re-export resolves to the file that defines the name, and counts where the name is used.
    let c = ("c.rs", "use crate::A; pub struct C(A);");
    let a = ("a.rs", "pub struct A;");
    assert_eq!(circles(&[("lib.rs", "mod a; mod c; pub use a::A; pub use c::C;"), a, c]), []);
    let c = ("c.rs", "pub struct C(crate::Root);");
    assert_eq!(circles(&[("lib.rs", "mod c; pub use c::C; struct Root;"), c]), []);
    assert_eq!(circles(&[("lib.rs", "mod c; pub use c::C; struct Root(Option<C>);"), c]), [2]);
}
