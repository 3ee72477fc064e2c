//! Which file imports which, and the cycles among them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::source::Crate;

/// For each file, the files that it imports, with the names used.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    imports: BTreeMap<&'a Path, BTreeMap<&'a Path, BTreeSet<String>>>,
}

impl<'a> Graph<'a> {
    pub(crate) fn of(source: &'a Crate) -> Self {
        let mut imports = BTreeMap::<_, BTreeMap<_, BTreeSet<_>>>::new();
        for import in source.imports().filter(|import| import.from_file != import.to_file) {
            let names = imports.entry(import.from_file).or_default().entry(import.to_file);
            names.or_default().insert(import.name.join("::"));
        }
        Self { imports }
    }

    /// Returns the sets of files that import each other in a cycle, sorted.
    pub(crate) fn circles(&self) -> Vec<Vec<&'a Path>> {
        let reached: BTreeMap<_, _> =
            self.imports.keys().map(|&file| (file, self.reached(file))).collect();
        let circles: BTreeSet<Vec<_>> = reached
            .iter()
            .filter(|(file, from)| from.contains(*file))
            .map(|(&file, from)| {
                let reaches_back =
                    |other: &Path| reached.get(other).is_some_and(|from| from.contains(file));
                from.iter().copied().filter(|other| reaches_back(other)).collect()
            })
            .collect();
        circles.into_iter().collect()
    }

    /// Describes what the files of a cycle import from each other; paths are relative to `root`.
    pub(crate) fn explain(&self, circle: &[&Path], root: &Path) -> String {
        let short = |file: &'a Path| file.strip_prefix(root).unwrap_or(file).display();
        let mut text = String::from("circle:\n");
        for (from, imports) in self.imports.iter().filter(|(from, _)| circle.contains(from)) {
            for (to, names) in imports.iter().filter(|(to, _)| circle.contains(to)) {
                let names = Vec::from_iter(names.iter().map(String::as_str)).join(", ");
                writeln!(text, "  {} imports {}: {names}", short(from), short(to))
                    .expect("a string takes all");
            }
        }
        text
    }

    /// Returns the files that a file reaches by one or more imports.
    fn reached(&self, file: &Path) -> BTreeSet<&'a Path> {
        let mut reached = BTreeSet::new();
        let mut open = vec![file];
        while let Some(file) = open.pop() {
            for &next in self.imports.get(file).into_iter().flat_map(BTreeMap::keys) {
                if reached.insert(next) {
                    open.push(next);
                }
            }
        }
        reached
    }
}
