//! Names the functions of a site's stack: [`Names`].

use std::path::Path;

use pagewise::trace::Stacks;
use pagewise::trace::stacks::Frame;

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

pub(crate) struct Names<'a> {
    stacks: &'a Stacks,
    /// Further prefixes of names to skip.
    skip: &'a [String],
    /// Skip nothing.
    raw: bool,
}

impl<'a> Names<'a> {
    pub(crate) fn new(stacks: &'a Stacks, skip: &'a [String], raw: bool) -> Self {
        Self { stacks, skip, raw }
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
