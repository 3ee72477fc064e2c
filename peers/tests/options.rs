//! The command lines of the benchmarks.

// Of each benchmark only its command line is compiled here.
#[allow(dead_code)]
#[path = "../benches/programs/list.rs"]
mod list;
#[allow(dead_code)]
#[path = "../benches/options/mod.rs"]
mod peers;
#[allow(dead_code)]
#[path = "../benches/preloaded/mod.rs"]
mod preloaded;
#[path = "../benches/programs/options.rs"]
mod programs;

fn words(line: &str) -> impl Iterator<Item = String> {
    line.split_whitespace().map(str::to_owned)
}

#[test]
fn allocators_are_chosen_by_name() {
    let names = |line| -> Result<Vec<_>, _> {
        let options = peers::Options::parse(words(line))?;
        Ok::<_, String>(options.peers.iter().map(|peer| peer.0).collect())
    };
    assert_eq!(names("--bench").unwrap().len(), peers::PEERS.len());
    assert_eq!(names("--allocators system,pagewise").unwrap(), ["pagewise", "system"]);
    for (line, unknown) in [
        ("--allocators pagewsie", "pagewsie"),
        ("--allocators pagewise,typo,system", "typo"),
        ("--allocators Pagewise", "Pagewise"),
        ("--allocators pagewise,", ""),
    ] {
        let told = names(line).unwrap_err();
        let begins = format!("unknown allocator {unknown:?}; available: pagewise, ");
        assert!(told.starts_with(&begins) && told.ends_with(", system"), "{told}");
    }
}

#[test]
fn invalid_options_are_refused() {
    for (line, told) in [
        ("--rounds three", "--rounds needs a number from 1"),
        ("--rounds 0", "--rounds needs a number from 1"),
        ("--only", "--only needs a value"),
        ("--allocator system", "unknown option --allocator; see --help"),
    ] {
        assert_eq!(peers::Options::parse(words(line)).err().as_deref(), Some(told));
    }
}

#[test]
fn programs_and_libraries_are_checked() {
    let parsed = |line| programs::Options::parse(words(line));
    let options = parsed("--bench --rounds 3 --only gawk,git Cargo.toml:A=1").unwrap();
    assert_eq!((options.rounds, options.libraries.len()), (3, 2));
    assert_eq!(options.libraries[1].to_string(), "Cargo.toml, A=1");
    let names: Vec<_> = options.programs.iter().map(|program| program.name).collect();
    assert_eq!(names, ["gawk", "git"]);
    for (line, told) in [
        ("--rounds three", "--rounds needs a number from 1"),
        ("--rounds 0", "--rounds needs a number from 1"),
        ("--only", "--only needs a value"),
        ("--onyl gawk", "unknown option --onyl; see --help"),
        ("nosuch.so", "unknown library nosuch.so; see --help"),
    ] {
        assert_eq!(parsed(line).err().as_deref(), Some(told));
    }
    let told = parsed("--only gawk,typo").err().unwrap();
    assert!(told.starts_with("unknown program \"typo\"; available: "), "{told}");
}
