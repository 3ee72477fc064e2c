//! Builds and runs programs that must be packages of their own: two without `std`, which show by
//! linking that arenas and the global allocator need none; the README's arena; one for a nightly compiler; one with
//! the library's default features, to which the workspace's packages add; one built as on a system
//! without support, where the global allocator forwards every request to the system's; and the
//! models of the allocator's lock and lock-free protocols, which depend on the model checker. Also
//! builds the library by itself.

#[path = "package/mod.rs"]
mod package;

use std::path::Path;
use std::process::Command;

/// Builds the package in this folder and runs its program. Returns the output.
fn builds_and_runs(folder: &str, environment: &[(&str, &str)]) -> String {
    let name = folder.rsplit('/').next().expect("the folder has the package's name");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    package::build(folder, &target, |command| {
        // `.ci/run` sets these for the workspace; a package has a profile of its own. No test looks
        // at its stacks.
        command.env_remove("CARGO_PROFILE_DEV_LTO").env("CARGO_PROFILE_DEV_DEBUG", "false");
        command.envs(environment.iter().copied());
    });
    let run = Command::new(target.join("debug").join(name)).output();
    let run = run.expect("the program starts");
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert_eq!(run.status.code(), Some(0), "the number of the step that went wrong; {out}{err}");
    out.into_owned()
}

#[test]
fn a_program_without_std_links_and_runs() {
    builds_and_runs("examples/no_std", &[]);
}

#[test]
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn the_global_allocator_needs_no_std() {
    builds_and_runs("examples/no_std_global", &[]);
}

#[test]
fn the_readmes_arena_needs_no_std() {
    builds_and_runs("tests/snippets", &[]);
}

#[test]
fn collections_of_the_standard_library_live_in_an_arena() {
    // The stable compiler in the mode that allows nightly features.
    builds_and_runs("examples/nightly", &[("RUSTC_BOOTSTRAP", "1")]);
}

#[test]
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn default_features_suffice() {
    assert_eq!(builds_and_runs("tests/default_features", &[]), "as usual\n");
}

#[test]
fn without_support_every_call_is_forwarded() {
    let as_if = [("RUSTFLAGS", "--cfg pagewise_forwarding -D warnings")];
    assert_eq!(builds_and_runs("tests/forwarding", &as_if), "passed on\n");
}

#[test]
fn every_model_holds() {
    let out = builds_and_runs("tests/model", &[("RUSTFLAGS", "--cfg pagewise_model")]);
    assert!(out.ends_with("every model holds\n"), "{out}");
}

/// Where a library has an instance of `Vec`'s growth, programs that use it call that for vectors of
/// the same items, through a pointer, and keep less in registers around the call: to push to a
/// `Vec<u32>` took a third longer. So the library has none.
#[test]
fn the_library_grows_no_vectors() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("library");
    package::build(".", &target, |command| {
        command.args(["--package", "pagewise", "--lib", "--features"]);
        command.arg("strategies,guarded,profiler,allocator-api2,lock_api,critical-section");
        // Which instances there are does not depend on it, and nothing here is run.
        command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("CARGO_PROFILE_DEV_DEBUG", "false");
    });
    let library = std::fs::read(target.join("debug/libpagewise.rlib")).expect("it is built");
    let has = |name: &str| library.windows(name.len()).any(|bytes| bytes == name.as_bytes());
    assert!(has("optimise"), "the names of functions are in it");
    assert!(!has("grow_one"), "a vector is pushed to");
}
