//! Finds the functions, files and lines of call stack addresses.
//!
//! ```text
//!  module ─► its file, if it still has the recorded build id
//!         ─► its debug file: /usr/lib/debug/.build-id/…, or the one its debug link names
//!         ─► functions (inlined ones, too), files and lines by DWARF; else names by symbols
//! ```
//! An unknown address keeps its module and offset.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use addr2line::{Loader, demangle_auto};
use indexmap::IndexSet;
use object::{Object, ObjectSection, ObjectSymbol, ReadCache, SymbolKind};
use pagewise::trace::Stacks;
use pagewise::trace::stacks::{Frame, Line, Module};
use pagewise_replay::progress::Progress;

use crate::system::signals::interrupted;

/// Where distributions install debug files.
const DEBUG: &str = "/usr/lib/debug";

/// Looks up every frame.
pub(super) fn find(stacks: &mut Stacks, progress: &Progress) -> anyhow::Result<()> {
    let mut of_module: HashMap<u32, Vec<usize>> = HashMap::new();
    for (index, frame) in stacks.frames.iter().enumerate() {
        if let Some(module) = frame.module {
            of_module.entry(module).or_default().push(index);
        }
    }
    let mut names = IndexSet::new();
    let mut modules: Vec<_> = of_module.into_iter().collect();
    modules.sort_unstable();
    for (module, frames) in modules {
        anyhow::ensure!(!interrupted(), "interrupted");
        let module = &stacks.modules[module as usize];
        progress.step(0, || format!("finding the functions of {}", module.path));
        let Some(code) = Code::of(module) else { continue };
        for index in frames {
            let frame: &mut Frame = &mut stacks.frames[index];
            // The call precedes its return address.
            frame.lines = code.lines(frame.address.saturating_sub(1), &mut names);
        }
    }
    stacks.names = names.into_iter().collect();
    Ok(())
}

/// Returns the number of a name; each name is stored once.
fn number(names: &mut IndexSet<String>, name: &str) -> u32 {
    names.insert_full(name.to_owned()).0 as u32
}

/// A module's code, as far as known.
struct Code {
    dwarf: Option<Loader>,
    /// Start, end and name of each function, sorted.
    symbols: Vec<(u64, u64, String)>,
}

impl Code {
    fn of(module: &Module) -> Option<Self> {
        let path = Path::new(&module.path);
        // A file that was replaced since has different addresses.
        let about = About::of(path).filter(|about| about.is(module));
        let file = about.is_some().then(|| path.to_owned());
        let separate = separate(module, path, about.as_ref());
        let has_lines = about.as_ref().is_some_and(|about| about.has_lines);
        let (debug, own) = match (separate, file) {
            (Some((debug, sup)), file) if !has_lines => (Some((debug, sup)), file),
            (_, Some(file)) => (None, Some(file)),
            (Some((debug, sup)), None) => (Some((debug, sup)), None),
            (None, None) => return None,
        };
        let mut symbols = own.as_deref().map(symbols).unwrap_or_default();
        if let Some((debug, _)) = &debug {
            symbols.extend(self::symbols(debug));
        }
        symbols.sort_unstable();
        symbols.dedup_by(|later, first| later.0 == first.0);
        let dwarf = match (&debug, &own) {
            (Some((debug, sup)), _) => Loader::new_with_sup(debug, sup.as_ref()).ok(),
            (None, Some(own)) => Loader::new(own).ok(),
            (None, None) => None,
        };
        Some(Self { dwarf, symbols })
    }

    /// Returns the functions at a code address, innermost first.
    fn lines(&self, address: u64, names: &mut IndexSet<String>) -> Vec<Line> {
        let mut lines = Vec::new();
        let symbol =
            || self.symbol(address).map(|name| demangle_auto(name.into(), None).into_owned());
        if let Some(Ok(mut frames)) = self.dwarf.as_ref().map(|dwarf| dwarf.find_frames(address)) {
            while let Ok(Some(frame)) = frames.next() {
                let function = frame.function.as_ref().and_then(|name| name.demangle().ok());
                let function = function.map(Cow::into_owned);
                let Some(function) = function.or_else(symbol) else { continue };
                let location = frame.location.as_ref();
                lines.push(Line {
                    function: number(names, &function),
                    file: location.and_then(|place| place.file).map(|file| number(names, file)),
                    line: location.and_then(|place| place.line).unwrap_or(0),
                });
            }
        }
        if lines.is_empty()
            && let Some(name) = symbol()
        {
            lines.push(Line { function: number(names, &name), file: None, line: 0 });
        }
        lines
    }

    /// Returns the symbol that contains an address. A symbol without a length contains only its
    /// start.
    fn symbol(&self, address: u64) -> Option<&str> {
        let after = self.symbols.partition_point(|(start, ..)| *start <= address);
        let (_, end, name) = self.symbols.get(after.checked_sub(1)?)?;
        (address < *end).then_some(name)
    }
}

/// A file's identification: build id and debug link.
struct About {
    build_id: Vec<u8>,
    has_lines: bool,
    link: Option<PathBuf>,
    sup: Option<PathBuf>,
}

impl About {
    fn of(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(open(path)?);
        let file = object::File::parse(&cache).ok()?;
        let name = |bytes: &[u8]| PathBuf::from(String::from_utf8_lossy(bytes).into_owned());
        Some(Self {
            build_id: file.build_id().ok().flatten().unwrap_or_default().to_vec(),
            has_lines: file
                .section_by_name(".debug_info")
                .is_some_and(|section| section.size() > 0),
            link: file.gnu_debuglink().ok().flatten().map(|(file, _)| name(file)),
            sup: file.gnu_debugaltlink().ok().flatten().map(|(file, _)| name(file)),
        })
    }

    fn is(&self, module: &Module) -> bool {
        module.build_id.is_empty() || self.build_id == module.build_id
    }
}

/// Returns a module's separate debug file, and the supplementary file that both may refer to.
fn separate(
    module: &Module,
    path: &Path,
    about: Option<&About>,
) -> Option<(PathBuf, Option<PathBuf>)> {
    let mut candidates = Vec::new();
    if let [first, rest @ ..] = &module.build_id[..] {
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        candidates.push(Path::new(DEBUG).join(format!(".build-id/{first:02x}/{rest}.debug")));
    }
    if let (Some(link), Some(folder)) = (about.and_then(|about| about.link.as_ref()), path.parent())
    {
        candidates.push(folder.join(link));
        candidates.push(folder.join(".debug").join(link));
        let inside = folder.strip_prefix("/").unwrap_or(folder);
        candidates.push(Path::new(DEBUG).join(inside).join(link));
    }
    candidates.into_iter().filter(|candidate| candidate != path).find_map(|candidate| {
        let about = About::of(&candidate).filter(|about| about.has_lines && about.is(module))?;
        let folder = candidate.canonicalize().ok()?.parent()?.to_owned();
        let sup = about.sup.map(|sup| folder.join(sup)).filter(|sup| sup.is_file());
        Some((candidate, sup))
    })
}

/// Opens a file that a log names, if it is a regular file. Others could make the import wait for
/// ever, or have effects when they are opened.
fn open(path: &Path) -> Option<File> {
    if path.is_file() { File::open(path).ok() } else { None }
}

/// Returns start, end and name of each function in a file's symbol table.
fn symbols(path: &Path) -> Vec<(u64, u64, String)> {
    let Some(file) = open(path) else { return Vec::new() };
    let cache = ReadCache::new(file);
    let Ok(file) = object::File::parse(&cache) else { return Vec::new() };
    let all = file.symbols().chain(file.dynamic_symbols());
    let functions = all.filter(|symbol| {
        symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() > 0
    });
    functions
        .filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            let end = symbol.address().checked_add(symbol.size())?;
            Some((symbol.address(), end, name.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// A log may name any path as a module's.
    #[test]
    fn a_pipe_is_no_module() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: the name is a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let module = Module { path: path.display().to_string(), build_id: Vec::new() };
            let _ = tell.send(Code::of(&module).is_none());
        });
        // Opening it for reading would wait until it is opened for writing.
        assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok(true));
    }
}
