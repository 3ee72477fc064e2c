//! A program that obeys one-letter commands: this test program, started again.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::mem;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Environment variable that selects the scenario of the restarted program.
const SCENARIO: &str = "PAGEWISE_TEST_OBEDIENT";
/// A size that nothing else requests.
pub(crate) const ODD: u64 = 7_531_357;
/// The size that a forked child requests.
pub(crate) const OF_CHILD: u64 = ODD + 1;
/// Number of threads that allocate continuously in a busy process.
pub(crate) const THREADS: u32 = 4;

static BUSY: AtomicBool = AtomicBool::new(false);

/// Plays the program, if this process was started as such.
pub(crate) fn play() {
    let Ok(how) = std::env::var(SCENARIO) else { return };
    BUSY.store(how == "busy", Ordering::Relaxed);
    thread::scope(|scope| {
        for thread in 0..if how == "busy" { THREADS } else { 0 } {
            scope.spawn(move || churn(thread));
        }
        obey();
        BUSY.store(false, Ordering::Relaxed);
    });
}

/// Allocates and frees, checks the contents of blocks, and forks now and then.
fn churn(thread: u32) {
    let mut kept: Vec<Vec<u32>> = vec![Vec::new(); 100];
    for round in 0_u32.. {
        if !BUSY.load(Ordering::Relaxed) {
            return;
        }
        let at = (round.wrapping_mul(2_654_435_761) >> 16) as usize % kept.len();
        let mark = round ^ thread;
        assert!(kept[at].iter().all(|&found| found == kept[at][0]), "a block was overwritten");
        kept[at] = black_box(vec![mark; 1 + round as usize % 300]);
        kept[at].extend([mark; 100]);
    }
}

fn obey() {
    let mut input = File::open("/dev/stdin").unwrap();
    let mut letter = [0];
    // No allocations except requested ones: `said` uses static text.
    while input.read_exact(&mut letter).is_ok() {
        match letter[0] {
            b'a' => mem::forget(black_box(vec![1_u8; ODD as usize])),
            b'f' => fork(),
            b'l' => load(),
            b'm' => end_the_main_thread(),
            b'v' => wait_for_a_child(),
            _ => return,
        }
        said(letter[0]);
    }
}

fn said(letter: u8) {
    let text = [b'\n', b'!', letter, b'\n'];
    // SAFETY: the text is valid for reads.
    unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
}

fn fork() {
    // SAFETY: the child only allocates, which the C library allows after a fork, and ends.
    unsafe {
        match libc::fork() {
            0 => {
                mem::forget(black_box(vec![1_u8; OF_CHILD as usize]));
                libc::_exit(0);
            }
            child => libc::waitpid(child, std::ptr::null_mut(), 0),
        };
    }
}

/// Ends the main thread, as `pthread_exit` does; the other threads go on.
fn end_the_main_thread() {
    extern "C" fn leave(_: c_int) {
        // SAFETY: the main thread only waits for others, and holds nothing that they need.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    // SAFETY: the main thread has the number of the process; the handler calls only the system.
    unsafe {
        libc::signal(libc::SIGUSR2, leave as *const () as libc::sighandler_t);
        let main = libc::getpid();
        libc::syscall(libc::SYS_tgkill, main, main, libc::SIGUSR2);
    }
    let mut stat = [0; 200];
    while !stat.windows(4).any(|part| part == b") Z ") {
        thread::sleep(Duration::from_millis(1));
        let read = File::open("/proc/self/stat").and_then(|mut file| file.read(&mut stat));
        assert!(read.is_ok());
    }
}

/// Starts a thread that waits, as in `vfork`, for a child of some seconds. Nothing stops it.
fn wait_for_a_child() {
    extern "C" fn child(_: *mut c_void) -> c_int {
        // SAFETY: the calls touch no memory of the parent's.
        unsafe {
            libc::sleep(12);
            libc::_exit(0)
        }
    }
    thread::spawn(|| {
        let mut stack = vec![0_u128; 1 << 12];
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the child has this stack alone, and has ended when the call returns.
        unsafe {
            libc::clone(child, stack.as_mut_ptr_range().end.cast(), flags, std::ptr::null_mut())
        }
    });
    thread::sleep(Duration::from_millis(500));
}

/// Loads zlib, and a second later makes it allocate its window of 64 KiB.
fn load() {
    type Init = unsafe extern "C" fn(*mut c_void, c_int, *const c_char, c_int) -> c_int;
    // SAFETY: the names are C strings; `deflateInit_` has this type, and takes a `z_stream` of
    // zeros.
    unsafe {
        let zlib = libc::dlopen(ZLIB.as_ptr(), libc::RTLD_NOW);
        let init = libc::dlsym(zlib, c"deflateInit_".as_ptr());
        assert!(!init.is_null());
        let init: Init = mem::transmute(init);
        thread::sleep(Duration::from_secs(1));
        let mut stream = [0_u64; 14];
        let ok = init(stream.as_mut_ptr().cast(), 6, c"1".as_ptr(), size_of_val(&stream) as c_int);
        assert_eq!(ok, 0);
    }
}

const ZLIB: &CStr = c"libz.so.1";

/// Returns whether zlib can be loaded.
pub(crate) fn has_zlib() -> bool {
    // SAFETY: the name is a C string; zlib has no constructors.
    unsafe { !libc::dlopen(ZLIB.as_ptr(), libc::RTLD_NOW).is_null() }
}

/// The running program.
pub(crate) struct Obedient {
    pub(crate) child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Makes a command start this program in this mode.
pub(crate) fn command<'c>(command: &'c mut Command, how: &str) -> &'c mut Command {
    command
        .args(["--exact", "scenarios", "--nocapture", "--test-threads", "1"])
        .env(SCENARIO, how)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
}

impl Obedient {
    /// Starts it: `quiet` or `busy`.
    ///
    /// Once this returns, a quiet program allocates only on command.
    pub(crate) fn start(how: &str) -> Self {
        let mut program = Command::new(std::env::current_exe().unwrap());
        let program = Self::of(command(&mut program, how));
        if how == "quiet" {
            while !program.is_asleep() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        program
    }

    /// Returns whether the obeying thread waits for a letter, and the thread that started it waits
    /// for its end.
    ///
    /// The test runner allocates before it waits, perhaps only after the first letter.
    fn is_asleep(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let asleep = tasks.map(|task| {
            let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
            // The thread's name may contain anything, but is in parentheses.
            stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('S'))
        });
        let asleep: Vec<bool> = asleep.collect();
        asleep.len() == 2 && asleep.iter().all(|&asleep| asleep)
    }

    /// Starts it with this command.
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Sends a command, and waits until it is done.
    pub(crate) fn tell(&mut self, letter: char) {
        write_letter(&mut self.input, letter);
        let done = format!("!{letter}\n");
        let mut line = String::new();
        while line != done {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
        }
    }

    /// Ends it; returns whether it succeeded.
    pub(crate) fn end(mut self) -> bool {
        write_letter(&mut self.input, 'x');
        let mut rest = String::new();
        let _ = self.output.read_to_string(&mut rest);
        self.child.wait().unwrap().success()
    }
}

fn write_letter(input: &mut ChildStdin, letter: char) {
    input.write_all(&[letter as u8]).unwrap();
}
