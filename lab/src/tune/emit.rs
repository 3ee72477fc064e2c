//! The code of a choice, Rust or settings, and the check that it compiles or is accepted.

use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use pagewise::global::Tuning;
use pagewise::hybrid;
use pagewise::sizemap::SizeMap;
use pagewise_replay::input;
use pagewise_replay::workload::CAPACITY;

use super::candidate::{Candidate, Family};
use super::global::Global;
use super::goal::Goal;
use super::pages::Pages;
use crate::hc;
use crate::system::library::Library;
use crate::system::signals;

/// The pagewise sources that the code is compiled against.
const PAGEWISE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The comment above code that uses the papers' strategies.
const NEEDS_STRATEGIES: &str = "// Needs pagewise with its feature `strategies`.\n";

/// Returns the lines that import a strategy's type, with the feature that it needs.
fn import(kind: &str) -> String {
    match kind {
        "PageHeap" => "use pagewise::PageHeap;\n".to_owned(),
        kind => format!("{NEEDS_STRATEGIES}use pagewise::catalogue::{kind};\n"),
    }
}

/// Returns the type of a strategy by its name.
fn type_of(name: &str) -> &'static str {
    match name {
        "PAGEWISE" => "PageHeap",
        "MRU" => "Mru",
        "LEAST-FREE" => "LeastFree",
        "MOST-FREE" => "MostFree",
        "STACK" => "Stack",
        "BEST-FIT" => "BestFit",
        "FIRST-FIT" => "FirstFit",
        "BUDDY" => "Buddy",
        _ => "Kingsley",
    }
}

/// Formats all code as one file: the global allocator's, to paste into `main.rs`, followed by an
/// arena's in its own module.
pub(super) fn file(codes: &[(Family, &str)]) -> String {
    match codes {
        [] => String::new(),
        [(_, code)] => (*code).to_owned(),
        codes => codes.iter().fold(String::new(), |file, (family, code)| match family {
            Family::Global | Family::Preload => file + code,
            Family::Arena => {
                let lines = code.lines().map(|line| match line {
                    "" => "\n".to_owned(),
                    line => format!("    {line}\n"),
                });
                format!("{file}\npub mod arena {{\n{}}}\n", lines.collect::<String>())
            }
        }),
    }
}

/// Returns code that makes the allocator with its parameters; `ours` is the library to which
/// settings apply.
pub(super) fn code(
    chosen: &Candidate,
    traces: &[PathBuf],
    goal: Goal,
    ours: Option<&Library>,
) -> String {
    let names = traces.iter().map(|path| input::file_name(path));
    let names = names.collect::<Vec<_>>().join(", ");
    let noun = goal.noun(chosen.family());
    let origin = format!("Tuned for {noun} on {names} by `pagewise tune`: {chosen}.");
    let options = textwrap::Options::new(76).initial_indent("/// ").subsequent_indent("/// ");
    let origin = textwrap::fill(&origin, options.break_words(false)) + "\n";
    let capacity = format!(
        "/// Address space in bytes; only touched pages take memory.\nconst CAPACITY: usize = \
         {CAPACITY};\n"
    );
    let body = |uses: &str, parameters: &str, kind: &str, make: &str| {
        format!(
            "{uses}use pagewise::Reserved;\n\n{capacity}{parameters}\n{origin}pub fn heap() -> \
             {kind} {{\n    {make}\n}}\n"
        )
    };
    match chosen {
        Candidate::Global(global) => global_allocator(global, &origin),
        Candidate::Preload(global) => settings(global, &origin, ours),
        Candidate::Paged(paged) => {
            let kind = type_of(paged.name);
            let uses =
                import(kind) + "use pagewise::pages::Config;\nuse pagewise::sizemap::SizeMap;\n";
            let make = format!("{kind}::new(CONFIG, Reserved::new(CAPACITY), ())");
            body(&uses, &paged_config(&paged.pages), &format!("{kind}<Reserved>"), &make)
        }
        Candidate::Growing { name, growth } => {
            let kind = type_of(name);
            let granule = if kind == "BestFit" { "" } else { "16, " };
            let make = format!("{kind}::new({granule}{growth}, Reserved::new(CAPACITY), ())");
            body(&import(kind), "", &format!("{kind}<Reserved>"), &make)
        }
        Candidate::Fixed { name } => {
            let kind = type_of(name);
            let make = format!("{kind}::new(4096, Reserved::new(CAPACITY), ())");
            body(&import(kind), "", &format!("{kind}<Reserved>"), &make)
        }
        Candidate::Hybrid(settings) => {
            let make = "Hybrid::new(SETTINGS, Reserved::new(CAPACITY), ())";
            let uses = format!("{NEEDS_STRATEGIES}use pagewise::hybrid::{{Hybrid, Settings}};\n");
            body(&uses, &hybrid_settings(settings), "Hybrid<Settings, Reserved>", make)
        }
    }
}

/// Returns environment variables, one per line, for a shell or as systemd's `EnvironmentFile`.
fn settings(global: &Global, origin: &str, ours: Option<&Library>) -> String {
    let mut code = origin.replace("/// ", "# ");
    for (name, value) in global.settings() {
        code += &format!("{name}={value}\n");
    }
    let library =
        ours.map_or("libpagewise.so".to_owned(), |ours| ours.path().display().to_string());
    code + &format!("LD_PRELOAD={library}\n")
}

/// Checks that the library accepts the settings: a process that loads it must report nothing about
/// them.
///
/// # Errors
/// If the process cannot be run; the library's messages, if it reports anything.
pub(super) fn verify_settings(code: &str) -> anyhow::Result<()> {
    let myself =
        std::env::current_exe().context("the path of this program's executable is unknown")?;
    let mut command = Command::new(myself);
    command.arg("--version").env("PAGEWISE_VERBOSE", "1").stdout(Stdio::null());
    for line in code.lines().filter(|line| !line.starts_with('#')) {
        if let Some((name, value)) = line.split_once('=') {
            command.env(name, value);
        }
    }
    let output = command.output().context("cannot start a process to check the settings")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || !said.is_empty() {
        bail!("the library rejects the settings: {}", said.trim());
    }
    Ok(())
}

fn global_allocator(global: &Global, origin: &str) -> String {
    let Global { pages, quick_blocks, quick_bytes, mapping_from, huge_pages } = global;
    let (uses, sizemap) = if pages.sizemap == Tuning::new().pages.sizemap {
        ("", String::new())
    } else {
        let sizemap = sizemap(pages.sizemap).replace('\n', "\n            ");
        ("use pagewise::sizemap::SizeMap;\n", format!("                .sizemap({sizemap})\n"))
    };
    format!(
        "use pagewise::global::{{HugePages, Pagewise, Tuning}};\n{uses}\n{origin}#[global_allocator]\n\
         static ALLOCATOR: Pagewise = Pagewise::with(\n    Tuning::new()\n        .pages(\n            \
         Tuning::new()\n                .pages\n                .page_size({})\n{sizemap}                \
         .freetol({})\n                .ffcrossover({}),\n        )\n        \
         .quick_blocks({quick_blocks})\n        .quick_bytes({quick_bytes})\n        \
         .mapping_from({mapping_from})\n        .huge_pages(HugePages::{huge_pages:?}),\n);\n",
        pages.page_size, pages.freetol, pages.ffcrossover
    )
}

fn sizemap(sizemap: SizeMap) -> String {
    match sizemap {
        SizeMap::Linear => "SizeMap::Linear".to_owned(),
        SizeMap::PageFitting => "SizeMap::PageFitting".to_owned(),
        SizeMap::Geometric { ratio } => format!("SizeMap::Geometric {{ ratio: {ratio:?} }}"),
        SizeMap::Classes(classes) => {
            let mut list = String::from("SizeMap::Classes(&[");
            for (index, class) in classes.iter().enumerate() {
                let separator = if index % 12 == 0 { "\n        " } else { " " };
                // Writing to a `String` cannot fail.
                let _ = write!(list, "{separator}{class},");
            }
            list + "\n    ])"
        }
    }
}

fn paged_config(pages: &Pages) -> String {
    format!(
        "const CONFIG: Config = Config::new()\n    .page_size({})\n    .unit({})\n    .sizemap({})\n    \
         .freetol({})\n    .ffcrossover({});\n",
        pages.page_size,
        pages.unit,
        sizemap(pages.sizemap),
        pages.freetol,
        pages.ffcrossover
    )
}

fn hybrid_settings(settings: &hybrid::Settings) -> String {
    let mut code = "const SETTINGS: Settings = Settings::generic()".to_owned();
    for (method, argument) in hc::changes(settings) {
        code += &format!("\n    .{method}({argument})");
    }
    code + ";\n"
}

/// Compiles the code in a package of its own.
///
/// # Errors
/// If there is no cargo; the compiler's messages.
pub(super) fn verify(code: &str) -> anyhow::Result<()> {
    let package = tempfile::tempdir().context("cannot make a folder to compile the code in")?;
    let at = |name: &str| package.path().join(name);
    let root = Path::new(PAGEWISE).canonicalize().with_context(|| {
        format!(
            "the code cannot be compiled: pagewise was built in {PAGEWISE}, which no longer exists"
        )
    })?;
    let features = if code.contains(NEEDS_STRATEGIES) { "[\"strategies\"]" } else { "[]" };
    let manifest = format!(
        "[package]\nname = \"tuned\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[lib]\npath = \
         \"tuned.rs\"\n[dependencies]\npagewise = {{ path = {root:?}, features = {features} }}\n\
         [workspace]\n"
    );
    let written = std::fs::write(at("Cargo.toml"), manifest)
        .and_then(|()| std::fs::write(at("tuned.rs"), code));
    written.context("the code cannot be compiled")?;
    // These versions are already built; without the file, cargo may want newer ones.
    let _ = std::fs::copy(root.join("Cargo.lock"), at("Cargo.lock"));
    // If a signal asks to end, remove the package first.
    signals::stand_back();
    let cargo = Command::new("cargo")
        .args(["check", "--quiet", "--offline"])
        .current_dir(package.path())
        .env("CARGO_TARGET_DIR", at("target"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("the code cannot be compiled: cannot start cargo")?;
    signals::pass_to(cargo.id());
    let output = cargo.wait_with_output().context("waiting for cargo")?;
    signals::pass_to_nobody();
    if let Some(signal) = output.status.signal() {
        bail!("the code was not compiled: signal {signal} ended cargo");
    }
    if !output.status.success() {
        bail!("the code does not compile: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn arenas() -> Vec<Candidate> {
        Candidate::usual(Family::Arena, &[])
    }

    #[test]
    fn every_untuned_candidate_has_code_of_its_own() {
        let code = |one: &Candidate| code(one, &["a\nb.pwt".into()], Goal::Memory, None);
        let all: Vec<_> = arenas().iter().map(code).collect();
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert!(
            all.iter()
                .all(|code| code.contains("pub fn heap()") && code.contains(r"on a\nb.pwt by"))
        );
    }

    /// All in one package, so that the compiler starts only once.
    #[test]
    fn all_code_compiles() {
        let code = |one: &Candidate| code(one, &["a.pwt".into()], Goal::Speed, None);
        let modules = arenas().iter().enumerate().fold(String::new(), |all, (i, one)| {
            format!("{all}pub mod m{i} {{\n{}}}\n", code(one))
        });
        let Candidate::Paged(mut paged) = Candidate::paged("MRU") else { panic!("paged") };
        paged.pages.sizemap = SizeMap::Classes(&[16, 32]);
        let classes = paged_config(&paged.pages);
        let uses = "use pagewise::pages::Config; use pagewise::sizemap::SizeMap;";
        let mut global = Global::untuned();
        global.pages.sizemap = SizeMap::Classes(&[16, 32]);
        let global = code(&Candidate::Global(global));
        verify(&format!(
            "#![deny(warnings)]\n{global}{modules}pub mod classes {{ {uses} pub {classes} }}"
        ))
        .expect("it compiles");
    }

    /// Returns the settings that the code makes, call by call.
    fn made(code: &str) -> hybrid::Settings {
        let calls = code.split_once("Settings::generic()").expect("it starts from these").1;
        let calls = calls.split_once(';').expect("it ends").0.trim();
        let calls = calls.split_terminator(')').map(|call| {
            call.trim().strip_prefix('.').and_then(|call| call.split_once('(')).expect("a call")
        });
        calls.fold(hybrid::Settings::generic(), |made, (method, argument)| {
            let number = || match argument {
                "usize::MAX" => usize::MAX,
                number => number.parse().expect("a number"),
            };
            let small = || number().try_into().expect("a small number");
            let switch = || argument.parse().expect("a switch");
            match method {
                "ql_high" => made.ql_high(number()),
                "coalesce" => made.coalesce(switch()),
                "coalesce_ql" => made.coalesce_ql(switch()),
                "threshold" => made.threshold(small()),
                "strict_threshold" => made.strict_threshold(switch()),
                "coalesce_in_free" => made.coalesce_in_free(switch()),
                "few_blocks" => made.few_blocks(number()),
                "much_held" => made.much_held(number()),
                "split" => made.split(switch()),
                "monitor" => made.monitor(switch()),
                "preallocate" => made.preallocate(small()),
                "mmap_threshold" => made.mmap_threshold(number()),
                "growth" => made.growth(number()),
                other => panic!("unknown method {other}"),
            }
        })
    }

    #[test]
    fn the_code_makes_the_settings_that_were_tuned() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut all: Vec<_> = arenas();
        all.retain(|one| matches!(one, Candidate::Hybrid(_)));
        for parent in all.clone() {
            let bred = std::iter::successors(Some(parent), |one| Some(one.changed(&mut rng, &[])));
            all.extend(bred.take(50));
        }
        let every = hybrid::Settings::performance().strict_threshold(true).few_blocks(7);
        all.push(Candidate::Hybrid(every.much_held(1 << 20).preallocate(3)));
        for one in &all {
            let Candidate::Hybrid(settings) = one else { panic!("a hybrid") };
            let code = code(one, &["a.pwt".into()], Goal::Speed, None);
            assert_eq!(made(&code), *settings, "{code}");
            let mapped = if settings.mmap_threshold == usize::MAX { "never" } else { "100 KiB" };
            let told = one.to_string();
            assert!(told.contains("mapping") && told.contains(mapped), "{told}");
        }
    }

    #[test]
    fn other_strategies_need_no_feature() {
        let default = Candidate::default_of(Family::Arena);
        let code = code(&default, &["a.pwt".into()], Goal::Speed, None);
        assert!(!code.contains(NEEDS_STRATEGIES), "{code}");
        verify(&code).expect("it compiles");
    }

    #[test]
    fn a_tuning_out_of_range_does_not_compile() {
        let mut global = Global::untuned();
        global.quick_blocks = 1;
        let code = code(&Candidate::Global(global), &[], Goal::Speed, None);
        let error = verify(&code).expect_err("it does not compile").to_string();
        assert!(error.contains("Tuning::check"), "{error}");
    }

    #[test]
    fn a_file_of_both_families_has_the_arena_in_a_module() {
        let both = file(&[(Family::Global, "static A: u8 = 1;\n"), (Family::Arena, "a\n\nb\n")]);
        assert_eq!(both, "static A: u8 = 1;\n\npub mod arena {\n    a\n\n    b\n}\n");
    }
}
