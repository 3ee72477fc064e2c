//! Profiles as files: their contents, when they are written, and whether pprof reads them.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use crate::sites::{block_of, figures};
use crate::{ALLOCATOR, child, profiler};

/// A field of a message: its number and contents.
enum Field<'a> {
    Number(u32, u64),
    Bytes(u32, &'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("it goes on");
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

/// Returns the fields of a message in protobuf's encoding.
fn fields(mut bytes: &[u8]) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let number = (key >> 3) as u32;
        match key & 7 {
            0 => fields.push(Field::Number(number, varint(&mut bytes))),
            2 => {
                let len = varint(&mut bytes) as usize;
                let (content, rest) = bytes.split_at(len);
                fields.push(Field::Bytes(number, content));
                bytes = rest;
            }
            kind => panic!("no field has the kind {kind}"),
        }
    }
    fields
}

fn numbers(mut bytes: &[u8]) -> Vec<u64> {
    std::iter::from_fn(|| (!bytes.is_empty()).then(|| varint(&mut bytes))).collect()
}

/// The contents of a file: its strings, samples, mappings, and the mapping of each location.
#[derive(Default)]
pub(crate) struct Profile {
    strings: Vec<String>,
    types: Vec<(u64, u64)>,
    samples: Vec<(Vec<u64>, Vec<u64>)>,
    mappings: Vec<HashMap<u32, u64>>,
    locations: HashMap<u64, HashMap<u32, u64>>,
    numbers: HashMap<u32, u64>,
}

impl Profile {
    pub(crate) fn read(file: &[u8]) -> Self {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("a whole gzip file");
        let flat = |bytes| -> HashMap<u32, u64> {
            let number = |field| match field {
                Field::Number(field, number) => (field, number),
                Field::Bytes(field, _) => panic!("{field} is a number"),
            };
            fields(bytes).into_iter().map(number).collect()
        };
        let mut profile = Self::default();
        for field in fields(&bytes) {
            match field {
                Field::Number(field, number) => {
                    profile.numbers.insert(field, number);
                }
                Field::Bytes(1, of) => profile.types.push((flat(of)[&1], flat(of)[&2])),
                Field::Bytes(2, sample) => {
                    let parts: Vec<_> = fields(sample)
                        .into_iter()
                        .map(|part| match part {
                            Field::Bytes(_, part) => numbers(part),
                            Field::Number(..) => panic!("they are packed"),
                        })
                        .collect();
                    profile.samples.push((parts[0].clone(), parts[1].clone()));
                }
                Field::Bytes(3, mapping) => profile.mappings.push(flat(mapping)),
                Field::Bytes(4, location) => {
                    let location = flat(location);
                    assert!(
                        profile.locations.insert(location[&1], location).is_none(),
                        "each once"
                    );
                }
                Field::Bytes(6, string) => {
                    profile.strings.push(String::from_utf8_lossy(string).into_owned());
                }
                Field::Bytes(11, _) => {}
                Field::Bytes(field, _) => panic!("field {field}"),
            }
        }
        profile
    }

    fn string(&self, number: u64) -> &str {
        &self.strings[number as usize]
    }

    /// Returns the comment on the whole profile, if there is one.
    pub(crate) fn comment(&self) -> Option<&str> {
        self.numbers.get(&13).map(|&number| self.string(number))
    }

    /// Returns the sums over all samples.
    pub(crate) fn sums(&self) -> [u64; 4] {
        let mut sums = [0; 4];
        for (_, values) in &self.samples {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        sums
    }
}

#[test]
fn a_file_matches_the_snapshot() {
    child::passes("files::contents");
}

#[test]
#[ignore = "in a process of its own"]
fn contents() {
    profiler().start(1000).expect("it begins");
    let layout = Layout::from_size_align(700, 8).expect("valid");
    let blocks: Vec<_> = (0..2000).map(|index| block_of(index % 7, layout)).collect();
    profiler().stop().expect("it ends");
    let mut file = Vec::new();
    profiler().write(&mut file).expect("it is written");
    let profile = Profile::read(&file);
    let types: Vec<_> = profile
        .types
        .iter()
        .map(|&(of, unit)| (profile.string(of), profile.string(unit)))
        .collect();
    let expected = [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ];
    assert_eq!(types, expected);
    assert_eq!(profile.strings[0], "");
    assert_eq!(profile.numbers[&12], 1000);
    assert_eq!(profile.string(profile.numbers[&14]), "inuse_space");
    assert_eq!(profile.comment(), None, "nothing was dropped");
    let snapshot = profiler().snapshot().expect("there is one");
    let mut sums = [0; 4];
    for site in snapshot.sites() {
        sums[0] += site.allocated_blocks();
        sums[1] += site.allocated_bytes();
        sums[2] += site.live_blocks();
        sums[3] += site.live_bytes();
    }
    assert_eq!(profile.sums(), sums);
    assert!(figures(&snapshot)[0][1] > 100_000.0);
    calls_are_in_mappings(&profile);
    errors_are_returned();
    // SAFETY: they are in use, and freed once.
    blocks.into_iter().for_each(|block| unsafe { ALLOCATOR.dealloc(block, layout) });
}

/// Checks that every call is in a location, and calls of this program in its mapping.
fn calls_are_in_mappings(profile: &Profile) {
    let program = std::env::current_exe().expect("it is known");
    let program = program.to_str().expect("a path in UTF-8");
    let own = profile.mappings.iter().find(|mapping| profile.string(mapping[&5]) == program);
    let own = own.expect("the program has code");
    let mut within = 0;
    for location in profile.samples.iter().flat_map(|(locations, _)| locations) {
        let location = &profile.locations[location];
        assert!(location[&3] > 0);
        if location.get(&2) == Some(&own[&1]) {
            assert!((own[&2]..own[&3]).contains(&location[&3]));
            within += 1;
        }
    }
    assert!(within > profile.samples.len());
}

/// Checks that errors of writing and of creating a file are returned.
fn errors_are_returned() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let full = profiler().write(Full).expect_err("it is full");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    for (path, kind) in [
        ("/nowhere/at/all", std::io::ErrorKind::NotFound),
        ("a\0b", std::io::ErrorKind::InvalidInput),
        (&*"x".repeat(5000), std::io::ErrorKind::InvalidFilename),
    ] {
        assert_eq!(profiler().dump(path).expect_err("no file is there").kind(), kind, "{path:?}");
    }
}

/// Returns Go's tool, if it is installed.
fn go() -> Option<&'static str> {
    ["go", "/usr/local/go/bin/go"]
        .into_iter()
        .find(|go| Command::new(go).arg("version").output().is_ok_and(|out| out.status.success()))
}

#[test]
fn pprof_reads_a_file_with_names() {
    let Some(go) = go() else { return println!("go is not installed") };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("heap.pb.gz");
    child::passes_when("files::named", |command| {
        command.env("PAGEWISE_PROFILE", format!("{}:1000", file.display()));
    });
    for (index, least) in [("inuse_space", 40.0), ("alloc_objects", 5.0)] {
        let mut pprof = Command::new(go);
        pprof.args(["tool", "pprof", "-top", "-unit=KB", &format!("-sample_index={index}")]);
        let out = pprof.arg(&file).output().expect("it runs");
        let (text, err) =
            (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{err}");
        let line = text.lines().find(|line| line.contains("who_allocates_this"));
        let line = line.unwrap_or_else(|| panic!("{text}{err}"));
        let percent = line
            .split_whitespace()
            .nth(4)
            .and_then(|cum| cum.trim_end_matches('%').parse::<f64>().ok());
        assert!(percent.is_some_and(|percent| percent > least), "{text}");
        assert!(
            !text.contains("pagewise::global"),
            "the allocator's own calls are left out: {text}"
        );
    }
}

#[inline(never)]
fn who_allocates_this() -> Vec<Vec<u8>> {
    let blocks = (0..1000).map(|_| vec![1; 2000]).collect();
    std::hint::black_box(blocks)
}

#[test]
#[ignore = "in a process of its own"]
fn named() {
    std::mem::forget(std::hint::black_box(who_allocates_this()));
}

/// Returns the live bytes in the file at a path, if it exists.
fn live_bytes_of(path: &Path) -> Option<u64> {
    std::fs::read(path).ok().map(|file| Profile::read(&file).sums()[3])
}

#[test]
fn a_profile_is_written_at_exit_only_by_its_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("heap.pb.gz");
    let own = folder.path().join("heap.%p");
    for path in [&file, &own] {
        child::passes_when("files::parent_of_a_child", |command| {
            command.env("PAGEWISE_PROFILE", path);
        });
    }
    let live = live_bytes_of(&file).expect("it is written");
    assert!((29 << 20..31 << 20).contains(&live), "{live}: the child did not write");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("a folder")
        .map(|file| file.expect("an entry").path())
        .filter(|path| *path != file)
        .map(|path| live_bytes_of(&path).expect("a profile"))
        .collect();
    files.sort_unstable();
    assert_eq!(files.len(), 2, "one of each, and nothing else is left");
    assert!((29 << 20..31 << 20).contains(&files[0]) && files[1] > 59 << 20, "{files:?}");
}

#[test]
#[ignore = "in a process of its own"]
fn parent_of_a_child() {
    let megabytes = |count: usize| {
        let layout = Layout::from_size_align(30 << 20, 8).expect("valid");
        (0..count).for_each(|_| {
            std::hint::black_box(block_of(0, layout));
        });
    };
    megabytes(1);
    // SAFETY: the child allocates, and exits normally.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            megabytes(1);
            libc::exit(0);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert_eq!(status, 0);
    }
}

#[test]
fn a_profile_is_written_on_a_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("heap.pb.gz");
    let ended = child::run("files::signals", |command| {
        let value = format!("{}:2000", file.display());
        command.env("PAGEWISE_PROFILE", value).env("PAGEWISE_PROFILE_SIGNAL", "USR2");
        command.env("PAGEWISE_TEST_FILE", &file);
    });
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    assert!(!ended.err.contains("cannot write a profile"), "{}", ended.err);
}

/// Signals arrive while threads allocate; no file is ever seen incomplete.
#[test]
#[ignore = "in a process of its own"]
fn signals() {
    let file = std::env::var_os("PAGEWISE_TEST_FILE").expect("it is told");
    let file = Path::new(&file);
    let threads: Vec<_> = (0..3)
        .map(|site| {
            std::thread::spawn(move || {
                let layout =
                    |index: usize| Layout::from_size_align(1 + index % 2000, 8).expect("valid");
                for index in 0..200_000 {
                    let block = block_of(site, layout(index));
                    // SAFETY: it is in use, and freed once.
                    unsafe { ALLOCATOR.dealloc(block, layout(index)) };
                }
            })
        })
        .collect();
    let mut written = 0;
    for _ in 0..50 {
        // SAFETY: a handler is installed.
        assert_eq!(unsafe { libc::kill(libc::getpid(), libc::SIGUSR2) }, 0);
        std::thread::sleep(std::time::Duration::from_millis(2));
        written += u32::from(live_bytes_of(file).is_some());
    }
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    assert!(written > 10, "{written}");
}

#[test]
fn an_unwritable_file_is_reported() {
    let ended = child::run("files::named", |command| {
        command.env("PAGEWISE_PROFILE", "/nowhere/heap.pb.gz").env("PAGEWISE_VERBOSE", "1");
    });
    assert_eq!(ended.code, Some(0));
    let line = "pagewise: cannot write the profile /nowhere/heap.pb.gz: input or output failed";
    assert_eq!(ended.err.lines().filter(|said| *said == line).count(), 1, "{}", ended.err);
    let ended = child::run("files::named", |command| {
        command.env("PAGEWISE_PROFILE", "a:0").env("PAGEWISE_VERBOSE", "1");
    });
    assert!(ended.err.contains("PAGEWISE_PROFILE=a:0 is ignored"), "{}", ended.err);
}
