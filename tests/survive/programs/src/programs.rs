//! All programs, in the order of the table.

use std::io;

use crate::outcome::Outcome;
use crate::{attributes, calls, clock, extensions, fork, limits, memory, sandbox, threads};

/// The required outcome of a program. Figures are compared with glibc's on the same machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    Survives,
    /// At most glibc's figure times `times`, plus `and` mebibytes.
    AtMost {
        times: f64,
        and: f64,
    },
    /// At least glibc's figure times `times`.
    AtLeast {
        times: f64,
    },
    Below {
        mebibytes: f64,
    },
}

impl Expected {
    /// Returns whether it compares with glibc's figure.
    pub(crate) const fn is_relative(self) -> bool {
        matches!(self, Self::AtMost { .. } | Self::AtLeast { .. })
    }
}

pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// The line of the list of faults that the program is for.
    pub(crate) line: u8,
    pub(crate) about: &'static str,
    pub(crate) run: fn() -> Outcome,
    pub(crate) expected: Expected,
    /// Time limit, after which the outcome is `Hangs`.
    pub(crate) seconds: u64,
    pub(crate) environment: &'static [(&'static str, &'static str)],
    pub(crate) cgroup_mebibytes: Option<u64>,
    /// Called between `fork` and `exec`: system calls only.
    pub(crate) prepare: fn() -> io::Result<()>,
}

const fn program(line: u8, name: &'static str, run: fn() -> Outcome) -> Program {
    Program {
        name,
        line,
        about: "",
        run,
        expected: Expected::Survives,
        seconds: 40,
        environment: &[],
        cgroup_mebibytes: None,
        prepare: || Ok(()),
    }
}

impl Program {
    const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    const fn expects(self, expected: Expected) -> Self {
        Self { expected, ..self }
    }
}

/// Enables the allocator's background thread, for programs that need its help.
const BACKGROUND: &[(&str, &str)] =
    &[("PAGEWISE_BACKGROUND", "1"), ("MALLOC_CONF", "background_thread:true")];

/// Guards one block in three: periodic work is due all the time.
const GUARDED: &[(&str, &str)] = &[("PAGEWISE_GUARDED", "3")];

const fn near_glibc(and: f64) -> Expected {
    Expected::AtMost { times: 1.1, and }
}

#[rustfmt::skip]
pub(crate) const PROGRAMS: &[Program] = &[
    program(1, "fork-stdio", fork::stdio)
        .about("four threads fork, eight are in `getline`, one in `fflush(NULL)`"),
    program(1, "fork-child", fork::child)
        .about("threads allocate, one forks 200 times; the child frees, allocates, starts a thread"),
    program(2, "fork-handler", fork::handler)
        .about("a fork handler older than the allocator's allocates, among threads"),
    program(3, "fork-in-signal", fork::signal_handler)
        .about("200 signals within `malloc` or `free`, whose handler forks"),
    program(3, "exit-in-signal", fork::signal_exit)
        .about("100 signals whose handler forks a child that calls `exit`"),

    program(4, "rlimit-as", limits::set_by_the_program)
        .about("the program sets RLIMIT_AS to 2 GiB: then a thread, `dlopen`, 4 MiB of stack, 100 MiB of blocks"),
    Program { prepare: || limits::address_space(100_000), ..program(4, "ulimit-100", limits::small_blocks) }
        .about("`ulimit -v 100000`: small blocks obtained").expects(Expected::AtLeast { times: 0.9 }),
    Program { prepare: || limits::address_space(300_000), ..program(4, "ulimit-300", limits::small_blocks) }
        .about("`ulimit -v 300000`: small blocks obtained").expects(Expected::AtLeast { times: 0.9 }),
    Program { prepare: || limits::address_space(1_000_000), ..program(4, "ulimit-1000", limits::small_blocks) }
        .about("`ulimit -v 1000000`: small blocks obtained").expects(Expected::AtLeast { times: 0.9 }),

    Program { seconds: 150, ..program(5, "no-mincore", sandbox::mincore) }
        .about("`mincore` answers EPERM, ENOSYS, EINTR or EAGAIN, from the start"),
    Program { seconds: 150, ..program(5, "no-madvise", sandbox::madvise) }
        .about("`madvise` answers these or ENOMEM, from the start"),
    Program { seconds: 150, ..program(5, "no-mremap", sandbox::mremap) }
        .about("`mremap`, the same"),
    Program { seconds: 150, ..program(5, "no-affinity", sandbox::affinity) }
        .about("`sched_getaffinity`, the same"),
    Program { seconds: 150, ..program(5, "no-getrandom", sandbox::getrandom) }
        .about("`getrandom`, the same"),
    Program { seconds: 150, ..program(5, "no-prlimit", sandbox::prlimit) }
        .about("`prlimit`, the same"),
    Program { seconds: 150, ..program(5, "no-mprotect", sandbox::mprotect) }
        .about("`mprotect`, in the running program"),
    Program { seconds: 150, ..program(5, "no-munmap", sandbox::munmap) }
        .about("`munmap`, in the running program"),
    Program { seconds: 150, ..program(5, "no-futex", sandbox::futex) }
        .about("`futex`, in the running program"),

    program(6, "mlockall", limits::locked)
        .about("`mlockall`, 100 MiB of blocks freed and trimmed: resident").expects(near_glibc(8.0)),

    program(7, "sparse-one", memory::sparse_one)
        .about("malloc(8 GiB), one byte in each 4 MiB: resident").expects(near_glibc(8.0)),
    program(7, "sparse-many", memory::sparse_many)
        .about("200 × malloc(16 MiB), two bytes each: resident").expects(near_glibc(8.0)),

    program(8, "turns-small", memory::turns_small)
        .about("two threads have 180 MiB by turns, in blocks of 1,000 bytes: the most resident")
        .expects(Expected::Below { mebibytes: 256.0 }),
    program(8, "turns-large", memory::turns_large)
        .about("the same in blocks of 2 MiB").expects(Expected::Below { mebibytes: 256.0 }),
    Program { cgroup_mebibytes: Some(256), ..program(8, "turns-cgroup", memory::turns_survived) }
        .about("the same in blocks of 60,000 bytes, in a cgroup of 256 MiB"),

    program(9, "idle", memory::idle_large)
        .about("100 × 10 MiB freed, idle for 3 s: resident").expects(near_glibc(16.0)),
    program(9, "hot", memory::hot)
        .about("the same, then 3 s of `malloc` and `free` of 64 bytes: resident").expects(near_glibc(16.0)),
    Program { environment: BACKGROUND, seconds: 60, ..program(9, "idle-small", memory::idle_small) }
        .about("1 GiB of 1,000-byte blocks freed, idle for 12 s, with the allocator's background thread: resident")
        .expects(near_glibc(64.0)),

    program(10, "huge-requests", memory::huge_requests)
        .about("400 requests that cannot be met, then 500 MiB freed by a thread that waits, another allocates now and then for 3 s: resident")
        .expects(Expected::Below { mebibytes: 100.0 }),

    program(11, "keys-many", threads::short_lived)
        .about("1,000 thread keys made first, then 5,000 threads: resident").expects(near_glibc(8.0)),
    program(11, "keys-all", threads::short_lived)
        .about("all thread keys made first, then 5,000 threads: resident").expects(near_glibc(8.0)),
    program(11, "threads", threads::short_lived)
        .about("5,000 threads: resident").expects(near_glibc(8.0)),

    program(12, "calloc", memory::untouched)
        .about("500 × calloc(1,000,000), untouched: resident").expects(near_glibc(16.0)),

    program(13, "deepbind", extensions::bound_to_itself)
        .about("a library opened with RTLD_DEEPBIND, as PHP opens its extensions, frees the program's blocks, and the program its"),

    program(14, "own-clock", clock::that_allocates)
        .about("the program's own `clock_gettime` and `nanosleep` allocate, as libfaketime's do; threads, forks"),

    Program { seconds: 60, ..program(15, "own-calls", calls::that_allocate) }
        .about("the program's own `mmap`, `munmap`, `mprotect`, `madvise` and `mincore` allocate; threads, forks"),
    Program { seconds: 60, environment: GUARDED, ..program(15, "own-calls-guarded", calls::that_allocate) }
        .about("the same with guarded blocks"),

    Program { seconds: 60, ..program(16, "raw-clone", fork::cloned) }
        .about("four threads allocate, one makes 100 children by the system call `clone`, not `fork`; they allocate"),

    Program { environment: BACKGROUND, ..program(17, "shared-memory", fork::sharing_memory) }
        .about("children that share the memory, as one of `vfork` does, free 60 MB, with the allocator's background thread"),
    program(18, "attributes", attributes::left_behind)
        .about("blocks of 40 MiB are freed that the program made read-only, locked, kept out of children or mapped others over; new blocks take their place"),

    Program { environment: BACKGROUND, ..program(19, "last-thread", threads::that_end_the_process) }
        .about("a process whose main thread ends, then its last other one, which freed 60 MB, with the allocator's background thread: exit functions run"),
];

pub(crate) fn named(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == name)
}

/// Returns the programs of these names, all if there are none; `None` if one is unknown.
pub(crate) fn select(names: &[&str]) -> Option<Vec<&'static Program>> {
    match names {
        [] => Some(PROGRAMS.iter().collect()),
        _ => names.iter().map(|name| named(name)).collect(),
    }
}
