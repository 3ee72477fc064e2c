//! Tests the library as C programmers use it: installs it with `install.sh`, compiles C and C++
//! programs with pkg-config's flags, links them statically and dynamically, and runs them. The
//! programs are those of docs/c.md and check their own results. Without a C compiler the tests
//! report that and do nothing.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::{env, fs};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn is_installed(program: &str) -> bool {
    let find = format!("command -v {program}");
    Command::new("sh").args(["-c", &find]).stdout(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// A directory with an installed library; `None` if a tool for that is missing.
fn installed() -> Option<&'static Path> {
    static PREFIX: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let prefix = PREFIX.get_or_init(|| {
        for tool in ["cc", "ld", "ar", "nm", "objcopy"] {
            if !is_installed(tool) {
                println!("skipped: there is no {tool}");
                return None;
            }
        }
        let prefix = tempfile::tempdir().expect("a temporary directory");
        let program = env::current_exe().expect("this program has a path");
        // …/debug/deps/c-0123
        let target = program.ancestors().nth(3).expect("it lies in a target directory");
        for command in ["build", "install"] {
            let mut script = Command::new(root().join("install.sh"));
            script.args([command, "library", "--profile=dev", "--prefix"]).arg(prefix.path());
            script.env("CARGO", env!("CARGO")).env("CARGO_TARGET_DIR", target);
            succeed(&mut script);
        }
        Some(prefix)
    });
    prefix.as_ref().map(tempfile::TempDir::path)
}

/// Runs a command that must succeed, and returns its output.
fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("it can be run");
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    out.into_owned()
}

/// Returns pkg-config's flags for a package; without pkg-config, the flags that its file contains.
fn flags(prefix: &Path, package: &str, option: &str) -> Vec<String> {
    if is_installed("pkg-config") {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args([option, package]);
        return succeed(&mut command).split_whitespace().map(str::to_owned).collect();
    }
    let prefix = prefix.display();
    match option {
        "--cflags" => vec![format!("-I{prefix}/include")],
        _ => vec![format!("-L{prefix}/lib"), format!("-l{}", package.replace('-', "_"))],
    }
}

/// Compiles a program, and returns its path.
fn compile(compiler: &str, source: &str, name: &str, options: &[impl AsRef<OsStr>]) -> PathBuf {
    let extension = if compiler == "cc" { "c" } else { "cpp" };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, program) = (folder.join(format!("{name}.{extension}")), folder.join(name));
    fs::write(&file, source).expect("written");
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-O1"]).arg(&file).arg("-o").arg(&program);
    // Libraries must follow the files that use them.
    succeed(command.args(options));
    program
}

/// Compiles a program against a package, shared and static, and returns the output of each.
fn outputs(compiler: &str, source: &str, name: &str, package: &str) -> Vec<String> {
    let prefix = installed().expect("it is installed");
    let includes = flags(prefix, package, "--cflags");
    let shared = flags(prefix, package, "--libs");
    let archive = prefix.join("lib").join(format!("lib{}.a", package.replace('-', "_")));
    let of_archive =
        [archive.to_str().expect("a path"), "-lpthread", "-ldl"].map(str::to_owned).to_vec();
    let ways = [("shared", shared), ("static", of_archive)];
    let run = |(way, libraries): (&str, Vec<String>)| {
        let options = [includes.clone(), libraries].concat();
        let program = compile(compiler, source, &format!("{name}-{way}"), &options);
        succeed(Command::new(program).env("LD_LIBRARY_PATH", prefix.join("lib")))
    };
    ways.into_iter().map(run).collect()
}

/// The snippets of docs/c.md in a language, each with the heading above it.
fn snippets(language: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("docs/c.md")).expect("the document is there");
    let (mut heading, mut found, mut open) = (String::new(), Vec::new(), None::<String>);
    for line in text.lines() {
        match &mut open {
            Some(_) if line == "```" => {
                found.extend(open.take().map(|code| (heading.clone(), code)))
            }
            Some(code) => *code += &format!("{line}\n"),
            None if line == format!("```{language}") => open = Some(String::new()),
            None => {
                if let Some(title) = line.strip_prefix("## ") {
                    heading = title.to_owned();
                }
            }
        }
    }
    found
}

/// Returns the output of a section's program, shared and static.
fn section(heading: &str, compiler: &str, language: &str, package: &str) -> Option<Vec<String>> {
    installed()?;
    if !is_installed(compiler) {
        println!("skipped: there is no {compiler}");
        return None;
    }
    let all = snippets(language);
    let code = all.iter().find(|(title, _)| title == heading);
    let (_, code) = code.unwrap_or_else(|| panic!("docs/c.md has `{heading}` with {language}"));
    let name = heading.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    Some(outputs(compiler, code, &name, package))
}

#[test]
fn a_program_is_linked_and_malloc_is_replaced() {
    let Some(outputs) = section("In the place of malloc", "cc", "c", "pagewise") else { return };
    for output in outputs {
        assert!(output.starts_with("pagewise 0."), "{output}");
        assert!(output.ends_with("malloc is pagewise's\n"), "{output}");
    }
}

#[test]
fn a_program_uses_the_prefixed_interface_beside_malloc() {
    let section = section("Beside malloc", "cc", "c", "pagewise-prefixed");
    for output in section.into_iter().flatten() {
        assert_eq!(output, "1000 blocks of pagewise's, then 0\n");
    }
}

#[test]
fn containers_of_cplusplus_are_served() {
    let section = section("C++", "c++", "cpp", "pagewise-prefixed");
    for output in section.into_iter().flatten() {
        assert_eq!(output, "1000 numbers, bad_alloc is thrown\n");
    }
}

/// A program may define some of C++'s operators itself; the others call these. (Regression: the
/// static library could not be linked, and with the shared one the program's blocks were freed to
/// the allocator.)
#[test]
fn a_program_may_define_operators_itself() {
    const SOURCE: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <new>
#pragma GCC diagnostic ignored "-Wsized-deallocation"
struct thing { long words[5]; };
static int news, deletes;
thing *volatile made;
void *operator new(size_t n) { news++; return (char *)malloc(n + 16) + 16; }
void operator delete(void *q) noexcept { deletes++; free((char *)q - 16); }
int main() {
    for (int i = 0; i < 100; i++) {
        made = new thing;
        delete made;
        made = new thing[3];
        delete[] made;
        made = new (std::nothrow) thing;
        delete made;
    }
    printf("%d %d", news, deletes);
}
"#;
    if installed().is_none() || !is_installed("c++") {
        return println!("skipped: it cannot be installed, or there is no c++");
    }
    for output in outputs("c++", SOURCE, "operators", "pagewise") {
        assert_eq!(output, "300 300");
    }
}

/// Structures have the same size and offsets in both languages.
#[test]
fn structures_are_laid_out_as_in_rust() {
    let Some(_) = installed() else { return };
    let word = size_of::<usize>();
    let source = format!(
        "#include <pagewise.h>\n\
         _Static_assert(sizeof(struct pagewise_stats) == {}, \"size\");\n\
         _Static_assert(offsetof(struct pagewise_stats, purged) == {}, \"purged\");\n\
         _Static_assert(offsetof(struct pagewise_stats, threads) == {}, \"threads\");\n\
         _Static_assert(sizeof(struct pagewise_class) == {}, \"class\");\n\
         #include <stdio.h>\n#include <string.h>\n\
         int main(void) {{\n\
         \x20   struct {{ struct pagewise_stats known; char more[8]; }} later;\n\
         \x20   memset(&later, 7, sizeof later);\n\
         \x20   pagewise_get_stats(&later.known, sizeof later);\n\
         \x20   printf(\"%d \", later.more[0] + later.more[7]);\n\
         \x20   memset(&later, 7, sizeof later);\n\
         \x20   pagewise_get_stats(&later.known, sizeof(size_t));\n\
         \x20   printf(\"%d\", ((char *)&later)[sizeof(size_t)]);\n\
         \x20   return 0;\n}}\n",
        10 * word + 8,
        6 * word,
        9 * word + 8,
        5 * word,
    );
    for output in outputs("cc", &source, "layout", "pagewise-prefixed") {
        assert_eq!(output, "0 7", "what is not known is 0, what is not asked for stays");
    }
}

/// The symbols that a shared library exports, with their versions.
fn exports(library: &Path) -> BTreeSet<String> {
    let symbols = succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let name = |line: &str| line.split_whitespace().last().map(str::to_owned);
    symbols.lines().filter_map(name).filter(|name| !name.starts_with("PAGEWISE_")).collect()
}

/// Our own names have a version, all other names have none: a program that needs GLIBC's version of
/// `malloc` would not be bound to a `malloc` with another version.
#[test]
fn only_our_symbols_have_a_version() {
    let Some(prefix) = installed() else { return };
    let full = exports(&prefix.join("lib/libpagewise.so"));
    let prefixed = exports(&prefix.join("lib/libpagewise_prefixed.so"));
    let ours: BTreeSet<_> =
        full.iter().filter(|name| name.starts_with("pagewise_")).cloned().collect();
    assert!(ours == prefixed, "without the override there is the interface of pagewise.h alone");
    assert!(ours.iter().all(|name| name.contains("@@PAGEWISE_0.")), "{ours:?}");
    for name in
        ["malloc", "free", "realloc", "aligned_alloc", "_Znwm", "_ZdlPvm", "malloc_trim", "dlopen"]
    {
        assert!(full.contains(name), "{name} is exported without a version");
    }
    let told = succeed(Command::new("objdump").arg("-p").arg(prefix.join("lib/libpagewise.so")));
    assert!(told.contains("SONAME               libpagewise.so.0."), "{told}");
    // Debian's compilers have the unwinder as an archive.
    let archive = succeed(Command::new("cc").arg("-print-file-name=libgcc_eh.a"));
    assert!(!(archive.starts_with('/') && told.contains("libgcc_s")), "{told}");
}

/// The static library hides all Rust symbols, so two such libraries can be linked together.
#[test]
fn the_static_library_defines_only_what_it_exports() {
    let Some(prefix) = installed() else { return };
    for (name, others) in [("pagewise", true), ("pagewise_prefixed", false)] {
        let archive = prefix.join(format!("lib/lib{name}.a"));
        let symbols = succeed(Command::new("nm").args(["-g", "--defined-only"]).arg(archive));
        let names = symbols.lines().filter_map(|line| line.split_whitespace().nth(2));
        let names: BTreeSet<_> = names.collect();
        assert!(names.contains("pagewise_malloc"), "{names:?}");
        assert_eq!(names.contains("malloc"), others);
        for name in ["dlopen", "prctl"] {
            assert!(!names.contains(name), "a program has one of its own, with `-static` as well");
        }
        let foreign = names.iter().find(|name| name.starts_with("_R") || name.contains("rust"));
        assert_eq!(foreign, None);
    }
}

/// The installed library can also be preloaded.
#[test]
fn the_installed_library_can_be_preloaded() {
    let Some(prefix) = installed() else { return };
    let program = compile("cc", "int main(void) { return 0; }\n", "plain", &[""; 0]);
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", prefix.join("lib/libpagewise.so")).env("PAGEWISE_SHOW_STATS", "1");
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("blocks in use"), "{said}");
}

/// `uninstall` removes everything that `install` created.
#[test]
fn an_installation_can_be_removed() {
    let Some(_) = installed() else { return };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let program = env::current_exe().expect("this program has a path");
    let target = program.ancestors().nth(3).expect("it lies in a target directory");
    let run = |command: &str| {
        let mut script = Command::new(root().join("install.sh"));
        script.args([command, "library", "--profile=dev", "--prefix=/usr"]);
        script.arg("--libdir=/usr/lib/machine");
        succeed(script.env("CARGO_TARGET_DIR", target).env("DESTDIR", folder.path()));
    };
    let files = || {
        let found = succeed(Command::new("find").arg(folder.path()).args(["!", "-type", "d"]));
        found.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    run("install");
    let installed = files();
    assert_eq!(installed.len(), 11, "{installed:?}");
    assert!(installed.iter().any(|file| file.ends_with("/usr/lib/machine/pkgconfig/pagewise.pc")));
    run("uninstall");
    assert_eq!(files(), [""; 0]);
}
