//! Names the functions of a site's stack: [`Names`].

use std::path::Path;

use pagewise::trace::Stacks;
use pagewise::trace::stacks::{Frame, Module};
use pagewise_replay::{input, units};

use super::count::Counted;

/// A function on a stack, with its source location.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) function: String,
    /// File and line, if known.
    pub(crate) source: Option<(String, u32)>,
    /// File name of the module, if known.
    pub(crate) module: Option<String>,
}

/// Functions that allocate on behalf of others.
const RUNTIME: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "aligned_alloc",
    "posix_memalign",
    "xmalloc",
    "xcalloc",
    "xrealloc",
    "xstrdup",
    "strdup",
    "__strdup",
    "strndup",
    "__strndup",
    "g_malloc",
    "g_malloc0",
    "g_realloc",
    "g_strdup",
    "g_slice_alloc",
];

/// Prefixes of other such names: the libraries of C++ and Rust.
const LIBRARIES: &[&str] = &[
    "operator new",
    "__gnu_cxx::",
    "std::",
    "void std::",
    "core::",
    "alloc::",
    "hashbrown::",
    "<core::",
    "<alloc::",
    "<std::",
    "<hashbrown::",
    "__rust_",
    "__rdl_",
    "__rustc",
];

/// Returns whether a source file belongs to Rust's own libraries, by its path when they were built,
/// or as installed with the compiler.
fn is_of_rust(file: &str) -> bool {
    file.starts_with("/rustc/")
        || file.starts_with("library/")
        || file.contains("/lib/rustlib/src/rust/library/")
}

/// Bytes that are named in about the time that following an event takes.
const NAMED: u64 = 64;

impl Place {
    /// Returns the bytes it takes.
    pub(crate) fn bytes(&self) -> u64 {
        let texts = self.source.iter().map(|(file, _)| file).chain(&self.module);
        let texts: usize = texts.map(String::len).sum();
        (size_of::<Self>() + self.function.len() + texts) as u64
    }
}

pub(crate) struct Names<'a> {
    path: &'a Path,
    stacks: &'a Stacks,
    /// Further prefixes of names to skip.
    skip: &'a [String],
    /// Skip nothing.
    raw: bool,
}

impl<'a> Names<'a> {
    /// # Errors
    /// If the stacks of the sites are so long that naming them would take longer, or one of them
    /// more memory, than a trace may: their tree takes few bytes, however deep it is.
    pub(crate) fn new(counted: &'a Counted, skip: &'a [String], raw: bool) -> anyhow::Result<Self> {
        let Counted { path, stacks, sites, .. } = counted;
        let names = Self { path, stacks, skip, raw };
        let frames: Vec<u64> = stacks.frames.iter().map(|frame| names.cost(frame)).collect();
        // Of the stack of each site. A caller's number is lower.
        let mut costs = vec![0_u64];
        for node in &stacks.nodes {
            let cost = costs[node.parent as usize].saturating_add(frames[node.frame as usize]);
            costs.push(cost);
        }
        let costs = sites.iter().filter_map(|(site, _)| costs.get(*site as usize));
        let all = costs.clone().fold(0, |sum: u64, &cost| sum.saturating_add(cost));
        let what = || format!("naming the callers of {}", units::count(sites.len() as u64, "site"));
        input::within_work(path, all / NAMED, &what())?;
        names.may_keep(costs.max().copied().unwrap_or(0), "a call stack")?;
        Ok(names)
    }

    /// Refuses to keep more than `--memory`.
    ///
    /// # Errors
    /// If `bytes` are more.
    pub(crate) fn may_keep(&self, bytes: u64, what: &str) -> anyhow::Result<()> {
        input::within_memory(self.path, bytes, what)
    }

    /// Returns the bytes that the functions of a frame take, or more.
    fn cost(&self, frame: &Frame) -> u64 {
        let text = |index: u32| self.stacks.names[index as usize].len();
        let path = |module: &Module| module.path.len();
        let module = frame.module.map_or(0, |module| path(&self.stacks.modules[module as usize]));
        // Without lines there is one function, named by the module and the address.
        let rest = size_of::<Place>() + module;
        let line = |texts: usize| (rest + texts) as u64;
        let lines = frame.lines.iter();
        let lines = lines.map(|one| line(text(one.function) + one.file.map_or(0, text)));
        lines.fold(line(module + 32), u64::saturating_add)
    }

    /// Returns the functions on a site's stack, innermost first.
    pub(crate) fn stack(&self, site: u32) -> Vec<Place> {
        let frames = self.stacks.callers(site);
        let mut places: Vec<_> =
            frames.flat_map(|node| self.places(&self.stacks.frames[node.frame as usize])).collect();
        if places.is_empty() {
            let function = "[stack not recorded]".to_owned();
            places.push(Place { function, source: None, module: None });
        }
        places
    }

    /// Returns the functions of a frame.
    pub(crate) fn places(&self, frame: &Frame) -> Vec<Place> {
        let module = frame.module.map(|module| &self.stacks.modules[module as usize].path);
        let module = module.map(|path| {
            let name = Path::new(path).file_name();
            name.map_or(path.clone(), |name| name.to_string_lossy().into_owned())
        });
        let name = |index: u32| self.stacks.names[index as usize].clone();
        if frame.lines.is_empty() {
            let function = match &module {
                _ if frame.is_cut() => "[deeper than recorded]".to_owned(),
                _ if frame.is_lost() => "[caller unknown]".to_owned(),
                Some(module) => format!("{module}+{:#x}", frame.address),
                None => format!("{:#x}", frame.address),
            };
            return vec![Place { function, source: None, module }];
        }
        let place = |line: &pagewise::trace::stacks::Line| Place {
            function: name(line.function),
            source: line.file.map(|file| (name(file), line.line)),
            module: module.clone(),
        };
        frame.lines.iter().map(place).collect()
    }

    /// Returns the allocating function: the innermost one on a stack that does not allocate on
    /// behalf of others.
    pub(crate) fn caller<'p>(&self, stack: &'p [Place]) -> &'p Place {
        stack.iter().find(|place| !self.passed_over(place)).unwrap_or(&stack[0])
    }

    /// Returns whether a function allocates on behalf of its callers.
    pub(crate) fn passed_over(&self, place: &Place) -> bool {
        if self.raw {
            return false;
        }
        let begins = |name: &str| place.function.starts_with(name);
        let in_rust = place.source.as_ref().is_some_and(|(file, _)| is_of_rust(file));
        in_rust
            || RUNTIME.contains(&&*place.function)
            || LIBRARIES.iter().any(|name| begins(name))
            || self.skip.iter().any(|name| begins(name))
    }
}
