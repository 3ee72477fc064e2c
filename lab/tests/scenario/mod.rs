//! Scenarios: small programs for the recorder, played by the restarted test program.

#[path = "../../../trace/tests/storm/mod.rs"]
mod storm;

use std::ffi::{CStr, c_void};
use std::fs;
use std::hint::black_box;
use std::mem;
use std::process::Command;
use std::ptr::{self, NonNull};

use pagewise::trace::{self, Event};
use storm::storm;

pub(crate) use storm::THREADS;

/// Environment variable that selects the scenario of the restarted program.
const SCENARIO: &str = "PAGEWISE_TEST_SCENARIO";
/// Environment variable with the trace to perform.
pub(crate) const TRACE: &str = "PAGEWISE_TEST_TRACE";

/// A size that nothing else requests; scenarios add up to 30.
pub(crate) const ODD: u64 = 7_654_321;

pub(crate) fn is_odd(size: u64) -> bool {
    (ODD..ODD + 30).contains(&size)
}

/// Makes `command` start this program with a scenario.
pub(crate) fn start<'c>(command: &'c mut Command, scenario: &str) -> &'c mut Command {
    command
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "scenarios", "--nocapture", "--test-threads", "1"])
        .env(SCENARIO, scenario)
}

/// Returns what a scenario printed, without the test runner's own output.
pub(crate) fn said(stdout: &str) -> Vec<&str> {
    stdout.lines().filter_map(|line| line.split("said: ").nth(1)).collect()
}

/// Plays the scenario from the environment, if there is one.
pub(crate) fn play() {
    match std::env::var(SCENARIO).as_deref() {
        Ok("seen") => seen(),
        Ok("functions") => functions(),
        Ok("storm") => storm_with_message(),
        Ok("starved") => storm_without_files(),
        Ok("family") => family(),
        Ok("handler") => in_a_handler(),
        Ok("perform") => perform(&std::env::var(TRACE).unwrap()),
        Ok("grandchild") => drop(black_box(vec![0_u8; (ODD + 2) as usize])),
        _ => {}
    }
}

/// Bytes of the signal handler's stack that an allocation may use: those of `SIGSTKSZ`, less the
/// registers that the kernel stores there.
pub(crate) const OF_A_HANDLER: usize = 8192 - 3584;

/// Prints how many bytes of a signal handler's stack an allocation uses.
fn in_a_handler() {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static HANDLER: AtomicUsize = AtomicUsize::new(0);
    const PAINT: u8 = 0xa5;
    extern "C" fn allocate(_: libc::c_int) {
        let here = 0_u8;
        HANDLER.store((&raw const here).addr(), Relaxed);
        // SAFETY: the block is freed once; the program was not in the allocator.
        unsafe { libc::free(black_box(libc::malloc(100))) };
    }
    let mut stack = vec![PAINT; 1 << 17];
    // SAFETY: the stack outlives the handler's only call; zeros are a valid `sigaction`.
    unsafe {
        let on =
            libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
        assert_eq!(libc::sigaltstack(&on, ptr::null_mut()), 0);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = allocate as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGUSR1, &action, ptr::null_mut());
        libc::raise(libc::SIGUSR1);
        let off = libc::stack_t { ss_flags: libc::SS_DISABLE, ..on };
        libc::sigaltstack(&off, ptr::null_mut());
    }
    let untouched = stack.iter().take_while(|&&byte| byte == PAINT).count();
    println!("said: {}", HANDLER.load(Relaxed) - stack.as_ptr().addr() - untouched);
}

/// Prints what a recorder could disturb: `errno`, the usable sizes of blocks, open files.
fn seen() {
    let errno = || std::io::Error::last_os_error().raw_os_error();
    let set_errno = |value| {
        // SAFETY: the location is this thread's own.
        unsafe { *libc::__errno_location() = value };
    };
    // SAFETY: every block is freed once; `malloc_usable_size` bytes of a block may be used.
    unsafe {
        set_errno(77);
        let block = black_box(libc::malloc(1000));
        let usable = libc::malloc_usable_size(block);
        ptr::write_bytes(block.cast::<u8>(), 1, usable);
        libc::free(block);
        println!("said: {:?} {usable}", errno());
        let none = black_box(libc::malloc(isize::MAX as usize));
        println!("said: {} {:?}", none.is_null(), errno());
        set_errno(78);
        let none = black_box(libc::calloc(usize::MAX / 2, 3));
        println!("said: {} {:?}", none.is_null(), errno());
        set_errno(79);
        let none = black_box(reallocarray(ptr::null_mut(), usize::MAX / 2, 3));
        println!("said: {} {:?}", none.is_null(), errno());
        set_errno(80);
        let mut out = ptr::without_provenance_mut(5);
        let error = libc::posix_memalign(&mut out, 3, 100);
        println!("said: {error} {} {:?}", out.addr(), errno());
        // Enough to make the log grow several times.
        for size in 0..100_000 {
            libc::free(black_box(libc::malloc(size % 100)));
        }
        println!("said: {:?}", errno());
    }
    let mut files: Vec<_> = fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    println!("said: {files:?}");
    println!("said: next file {:?}", fs::File::open("/dev/null").unwrap());
}

unsafe extern "C" {
    // The `libc` crate lacks these for this system.
    fn pvalloc(size: usize) -> *mut c_void;
    fn valloc(size: usize) -> *mut c_void;
    fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
}

/// The events that [`functions`] leaves in the trace: `a` size-over-ODD alignment, `r`
/// size-over-ODD, `f`.
pub(crate) const FUNCTIONS: &[&str] = &[
    "a 0 16", "f", // malloc
    "a 6 16", "f", // calloc
    "a 2 16", "r 3", "r 4", "f", // realloc of null, realloc, reallocarray
    "a 5 64", "f", // posix_memalign
    "a 7 128", "f", // aligned_alloc
    "a 8 32", "f", // memalign
    "a 9 4096", "f", // valloc
    "a 10 16", "f", // realloc to 0 bytes
    "a 11 16", "f", // a realloc that fails
    "a 12 16", "f", // free_sized
    "a 13 64", "f", // free_aligned_sized
];

/// Calls every function of the family.
fn functions() {
    let odd = ODD as usize;
    // The compiler knows these functions, and would remove calls without effect.
    let [zero, one] = black_box([0, 1]);
    // SAFETY: every block is freed once and not used.
    unsafe {
        libc::free(black_box(libc::malloc(odd)));
        libc::free(black_box(ptr::null_mut()));
        libc::free(black_box(libc::calloc(odd + 6, one)));
        let block = black_box(libc::realloc(black_box(ptr::null_mut()), odd + 2));
        let block = black_box(libc::realloc(block, odd + 3));
        libc::free(black_box(reallocarray(block, one, odd + 4)));
        let mut block = ptr::null_mut();
        assert_eq!(libc::posix_memalign(&mut block, 64, odd + 5), 0);
        libc::free(black_box(block));
        libc::free(black_box(libc::aligned_alloc(128, odd + 7)));
        libc::free(black_box(libc::memalign(32, odd + 8)));
        libc::free(black_box(valloc(odd + 9)));
        // Whole pages, hence none of the odd sizes.
        libc::free(black_box(pvalloc(odd)));
        let block = black_box(libc::malloc(odd + 10));
        assert!(black_box(libc::realloc(block, zero)).is_null());
        let block = black_box(libc::malloc(odd + 11));
        assert!(black_box(libc::realloc(block, usize::MAX)).is_null());
        libc::free(black_box(block));
        let block = black_box(libc::malloc(odd + 12));
        match function(c"free_sized") {
            Some(found) => mem::transmute::<NonNull<c_void>, FreeSized>(found)(block, odd + 12),
            None => libc::free(block),
        }
        let block = black_box(libc::memalign(64, odd + 13));
        match function(c"free_aligned_sized") {
            Some(found) => {
                mem::transmute::<NonNull<c_void>, FreeAligned>(found)(block, 64, odd + 13);
            }
            None => libc::free(block),
        }
    }
}

type FreeSized = unsafe extern "C" fn(*mut c_void, usize);
type FreeAligned = unsafe extern "C" fn(*mut c_void, usize, usize);

/// Returns a function that the C library may lack. (Regression: so did the recorder.)
fn function(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the name is valid for the call.
    let found = NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
    assert!(found.is_some() || std::env::var_os("LD_PRELOAD").is_none(), "{name:?}");
    found
}

/// A storm that prints when it is over.
fn storm_with_message() {
    storm();
    println!("storm is over");
}

/// The storm, in a process that cannot open more files.
fn storm_without_files() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `none` is valid for reads.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &none) }, 0);
    storm_with_message();
}

/// A parent with two blocks; a child that inherits and frees them, allocates one of its own, and
/// executes another program.
fn family() {
    let inherited = black_box([vec![1_u8; ODD as usize], vec![1_u8; ODD as usize]]);
    let program = std::env::current_exe().unwrap();
    let mut exec = Command::new(program);
    exec.args(["--exact", "scenarios", "--test-threads", "1"]).env(SCENARIO, "grandchild");
    // SAFETY: no other thread of this process holds a lock that the child needs: the test runner
    // waits. The child does not return.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(inherited);
        drop(black_box(vec![1_u8; (ODD + 1) as usize]));
        use std::os::unix::process::CommandExt;
        let error = exec.exec();
        eprintln!("{error}");
        // SAFETY: ends the child.
        unsafe { libc::_exit(1) };
    }
    let mut status = 0;
    // SAFETY: waits for our child; `status` is valid for writes.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    drop(black_box(vec![1_u8; (ODD + 9) as usize]));
}

/// Performs a trace in a forked child that allocates nothing else.
fn perform(path: &str) {
    let reader = trace::open(path).unwrap();
    let slots = reader.header().peak_blocks as usize;
    let events: Vec<Event> = reader.map(|event| event.unwrap()).collect();
    let mut blocks: Vec<*mut c_void> = vec![ptr::null_mut(); slots];
    // SAFETY: as in `family`; the child only calls C's allocator.
    let child = unsafe { libc::fork() };
    if child == 0 {
        for event in &events {
            // SAFETY: a trace that was read to its end only frees and reallocates live blocks.
            unsafe {
                match *event {
                    Event::Allocate { slot, size, align: 16 } => {
                        blocks[slot as usize] = libc::malloc(size as usize);
                    }
                    Event::Allocate { slot, size, align } => {
                        blocks[slot as usize] = libc::memalign(align as usize, size as usize);
                    }
                    Event::Reallocate { slot, size } => {
                        let block = &mut blocks[slot as usize];
                        *block = libc::realloc(*block, size as usize);
                    }
                    Event::Free { slot } => libc::free(blocks[slot as usize]),
                    Event::Thread { .. } | Event::Tick { .. } => libc::_exit(1),
                }
            }
        }
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for our child; `status` is valid for writes.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
}

/// Returns the file of a program without a loader, which exits with status 7.
pub(crate) fn static_program() -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    // mov edi, 7; mov eax, 60 (exit); syscall
    let code = [0xbf, 7, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let halves = |file: &mut Vec<u8>, values: &[u16]| {
        values.iter().for_each(|value| file.extend(value.to_le_bytes()));
    };
    halves(&mut file, &[2, 62, 1, 0]); // an executable, x86-64, version 1
    for value in [BASE + HEADERS, 64, 0] {
        file.extend(value.to_le_bytes()); // entry, program headers, no sections
    }
    halves(&mut file, &[0, 0, 64, 56, 1, 64, 0, 0]);
    halves(&mut file, &[1, 0, 5, 0]); // load; readable and executable
    let length = HEADERS + code.len() as u64;
    for value in [0, BASE, BASE, length, length, 0x1000] {
        file.extend(value.to_le_bytes());
    }
    file.extend(code);
    file
}
