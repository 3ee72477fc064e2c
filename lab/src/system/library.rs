//! Shared libraries whose `malloc` replaces the C library's in a child process (`LD_PRELOAD`):
//! finds them, and checks that they were loaded.

use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::bail;
use pagewise_replay::usage::Usage;

/// An allocator known by name.
struct Known {
    name: &'static str,
    /// Its file name without `lib` and `.so`.
    stem: &'static str,
    /// The package that contains it.
    from: &'static str,
}

/// pagewise's own, for programs not written in Rust.
pub(crate) const OURS: &str = "libpagewise";

/// The folder where cargo built this program, wherever `cargo install` has put it since.
const BUILT_IN: &str = env!("LAB_BUILT_IN");

/// The allocators known by name. Ours is also searched beside this program, in its installation,
/// and where both were built.
const KNOWN: [Known; 4] = [
    Known { name: "mimalloc", stem: "mimalloc", from: "Debian's package libmimalloc2.0 has it" },
    Known { name: "jemalloc", stem: "jemalloc", from: "Debian's package libjemalloc2 has it" },
    Known {
        name: "tcmalloc",
        stem: "tcmalloc_minimal",
        from: "Debian's package libtcmalloc-minimal4 has it",
    },
    Known {
        name: OURS,
        stem: "pagewise",
        from: "`cargo build --release -p pagewise-preload` in a checkout makes it, `./install.sh` installs it",
    },
];
/// Library folders; in each, a subfolder for the machine's architecture is searched as well.
const FOLDERS: [&str; 6] =
    ["/usr/local/lib", "/usr/local/lib64", "/usr/lib", "/usr/lib64", "/lib", "/lib64"];

/// A library whose `malloc` replaces the C library's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Library {
    /// The loader's argument: a path, or a name for the loader to look up.
    path: PathBuf,
    /// `MIMALLOC (libmimalloc.so.2)`.
    pub(crate) name: String,
    /// Its settings: environment variables and their values.
    settings: Vec<(&'static str, String)>,
}

impl Library {
    /// Returns the library at this path, or of this name in the loader's directories.
    ///
    /// # Errors
    /// If it is a path and there is no such file, or the system cannot preload it.
    pub(crate) fn find(path: &Path) -> Result<Self, Usage> {
        if !cfg!(target_os = "linux") {
            return Err(Usage("preloading a library needs the Linux loader".to_owned()));
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let is_path = path.components().count() > 1;
        if (is_path && !path.is_file()) || file.is_empty() {
            return Err(Usage(format!("no library {}{}", path.display(), hint(&file))));
        }
        let path = if is_path {
            std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
        } else {
            path.to_owned()
        };
        if is_path && !is_preloadable(&path) {
            return Err(Usage(not_preloadable(&path)));
        }
        let stem = file.split(".so").next().unwrap_or_default();
        let stem = stem.strip_prefix("lib").unwrap_or(stem);
        let known = KNOWN.iter().find(|known| known.stem == stem);
        let short = known.map_or(stem, |known| known.name).to_ascii_uppercase();
        Ok(Self { name: format!("{short} ({file})"), path, settings: Vec::new() })
    }

    /// Returns the same library with these settings.
    pub(crate) fn with_settings(&self, settings: Vec<(&'static str, String)>) -> Self {
        Self { settings, ..self.clone() }
    }

    /// Returns the loader's argument.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns an allocator's library, by the allocator's name, its file or a path; for a known
    /// name that is not installed, the reason.
    ///
    /// # Errors
    /// If it is none of these.
    pub(crate) fn installed(name: &str) -> Result<Result<Self, String>, Usage> {
        let lower = name.to_ascii_lowercase();
        if name.contains(".so") || name.contains('/') {
            return Self::find(Path::new(name)).map(Ok);
        }
        let Some(known) = KNOWN.iter().find(|known| known.name == lower) else {
            let known: Vec<_> = KNOWN.iter().map(|known| known.name).collect();
            return Err(Usage(format!(
                "unknown allocator '{name}': expected {}, or the path of a shared library",
                known.join(", ")
            )));
        };
        let prefix = format!("lib{}.so", known.stem);
        let own = (known.name == OURS).then(own_folders).into_iter().flatten();
        let beside = own.map(|folder| folder.join(&prefix)).find(|path| path.is_file());
        let installed =
            || FOLDERS.iter().flat_map(|folder| files(Path::new(folder), &prefix)).max();
        let built = || {
            let path = Path::new(BUILT_IN).join(&prefix);
            (known.name == OURS && path.is_file()).then_some(path)
        };
        Ok(match beside.or_else(installed).or_else(built) {
            Some(path) if !is_preloadable(&path) => Err(not_preloadable(&path)),
            Some(path) => Ok(Self::find(&path)?),
            None => Err(format!("{name} is not installed: no {prefix}{}", hint(&prefix))),
        })
    }

    /// Returns the installed allocators that are known by name.
    pub(crate) fn all_installed() -> &'static [Self] {
        static INSTALLED: OnceLock<Vec<Library>> = OnceLock::new();
        let known = KNOWN.iter().filter_map(|known| Self::installed(known.name).ok()?.ok());
        INSTALLED.get_or_init(|| known.collect())
    }

    /// `MIMALLOC`.
    pub(crate) fn short_name(&self) -> &str {
        self.name.split(' ').next().unwrap_or_default()
    }

    /// `libmimalloc.so.2`, its file without a folder.
    pub(crate) fn file(&self) -> &str {
        self.path.file_name().and_then(OsStr::to_str).unwrap_or_default()
    }

    /// Returns the environment variables that make the loader load it first in a process, with its
    /// settings.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (OsString, OsString)> {
        let settings = self.settings.iter().map(|(name, value)| (name.into(), value.into()));
        [("LD_PRELOAD".into(), self.path.clone().into())].into_iter().chain(settings)
    }

    /// Checks that `malloc` is the library's: the child reports the file that contains it, and the
    /// loader says on the child's stderr why it loaded nothing.
    ///
    /// # Errors
    /// If it is not.
    pub(crate) fn check_loaded(&self, malloc: Option<&Path>, loader: &str) -> anyhow::Result<()> {
        let malloc = malloc.unwrap_or(Path::new("an unknown file"));
        if malloc.file_name() != self.path.file_name() {
            let (path, hint) = (self.path.display(), hint(&self.path.to_string_lossy()));
            if !self.path.is_absolute() && loader.contains("cannot open shared object file") {
                bail!("the loader found no {path} (give a path, or install it{hint})");
            }
            bail!(
                "{path} did not replace malloc, which came from {} (is it an allocator's shared \
                 library for this machine?{hint})",
                malloc.display(),
            );
        }
        Ok(())
    }
}

/// Returns whether `LD_PRELOAD` can hold a path: it is split at spaces and colons.
pub(crate) fn is_preloadable(path: &Path) -> bool {
    let splits = |byte: &u8| matches!(byte, b' ' | b':');
    path.is_absolute() && !path.as_os_str().as_bytes().iter().any(splits)
}

/// Says why the library at this path cannot be preloaded, and the way out.
fn not_preloadable(path: &Path) -> String {
    format!(
        "{} cannot be preloaded: the loader splits LD_PRELOAD at spaces and colons; link or copy \
         the library to a path without",
        path.display()
    )
}

/// Returns the folders where our own library may be installed: beside this program, or in `lib`
/// beside the program's `bin`.
fn own_folders() -> impl Iterator<Item = PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().map(Path::to_owned).unwrap_or_default();
    let lib = folder.parent().map(|prefix| prefix.join("lib"));
    [folder].into_iter().chain(lib)
}

/// Returns the files with this prefix in a folder, and in its subfolders named after a machine
/// (`x86_64-linux-gnu`).
fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = |folder: &Path| {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let named = |path: &PathBuf, part: fn(&str, &str) -> bool, with: &str| {
        path.file_name().is_some_and(|name| part(&name.to_string_lossy(), with))
    };
    let machines =
        entries(folder).filter(|path| named(path, |name, part| name.contains(part), "-linux-"));
    let all =
        entries(folder).chain(machines.flat_map(|folder| entries(&folder).collect::<Vec<_>>()));
    all.filter(|path| named(path, |name, part| name.starts_with(part), prefix) && path.is_file())
        .collect()
}

/// Suggests where to get a missing library.
fn hint(file: &str) -> String {
    let known = KNOWN.iter().find(|known| file.contains(&format!("lib{}.so", known.stem)));
    known.map_or_else(String::new, |known| format!("; {}", known.from))
}

/// Returns the file that contains this process's `malloc`.
pub(crate) fn malloc_file() -> Option<PathBuf> {
    // SAFETY: the name is a C string; `dladdr` takes any address and writes `info`; the strings of
    // a file that it found stay valid as long as that file is loaded.
    unsafe {
        let malloc = libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr());
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(malloc, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        let name = CStr::from_ptr(info.dli_fname);
        Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_library_is_described_by_name_and_file() {
        let name = |path: &str| Library::find(Path::new(path)).map(|library| library.name);
        assert_eq!(name("libmimalloc.so.2").unwrap(), "MIMALLOC (libmimalloc.so.2)");
        let missing = name("/none/libmimalloc.so.2").unwrap_err().to_string();
        assert!(missing.contains("no library /none/libmimalloc.so.2; Debian's"), "{missing}");
        assert!(!name("/none/libother.so").unwrap_err().to_string().contains("Debian"));
        assert_eq!(
            name("libtcmalloc_minimal.so.4").unwrap(),
            "TCMALLOC (libtcmalloc_minimal.so.4)"
        );
        // Our arenas' strategy has the other name.
        assert_eq!(name("libpagewise.so").unwrap(), "LIBPAGEWISE (libpagewise.so)");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_allocator_is_found_by_name_or_its_package_is_named() {
        match Library::installed("jemalloc").expect("known") {
            Ok(library) => assert!(library.name.starts_with("JEMALLOC (libjemalloc.so")),
            Err(why) => assert!(why.contains("libjemalloc2"), "{why}"),
        }
        // A library that the loader cannot be told of is none.
        let folder = tempfile::Builder::new().prefix("a folder:").tempdir().expect("a folder");
        let path = folder.path().join("libmimalloc.so");
        std::fs::write(&path, "").expect("it is written");
        let refused = Library::find(&path).unwrap_err().to_string();
        assert!(refused.contains("splits LD_PRELOAD at spaces and colons"), "{refused}");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(OsStr::from_bytes(b"lib\xff.so"));
        std::fs::write(&path, "").expect("it is written");
        assert!(Library::find(&path).is_ok(), "a name need not be in UTF-8");
        let unknown = Library::installed("quickmalloc").unwrap_err().to_string();
        assert!(unknown.contains("mimalloc, jemalloc"), "{unknown}");
        assert!(Library::installed("/none/libx.so").is_err());
    }

    #[test]
    fn the_file_of_malloc_is_found() {
        if cfg!(all(target_os = "linux", target_env = "gnu")) {
            let file = malloc_file().unwrap();
            assert!(file.to_string_lossy().contains("libc.so"), "{}", file.display());
        }
    }
}
