//! Stops the threads of a process, and makes one of them execute a system call: [`Stopped`].
//!
//! `PTRACE_SEIZE` and `PTRACE_INTERRUPT` stop a thread without a signal that the program could see.
//! The kernel restarts an interrupted system call when the thread continues, or it ends with
//! `EINTR`, as under a debugger.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::ptr;
use std::time::{Duration, Instant};

use libc::{c_int, c_uint, c_void, pid_t, user_regs_struct as Registers};

/// How long to wait for a thread to stop: one that waits for a disk cannot.
const PATIENCE: Duration = Duration::from_secs(5);

/// A process whose threads are all stopped; they continue when this is dropped. Only for the thread
/// that created it.
pub(super) struct Stopped {
    threads: Vec<pid_t>,
}

impl Stopped {
    /// Stops every thread of a process.
    pub(super) fn all(process: pid_t) -> io::Result<Self> {
        let mut stopped = Self { threads: Vec::new() };
        loop {
            let mut new = false;
            for thread in threads(process)? {
                if !stopped.threads.contains(&thread) && stopped.stop(thread)? {
                    new = true;
                }
            }
            // A running thread can start another one. Now none does.
            if !new {
                return if stopped.threads.is_empty() { Err(gone()) } else { Ok(stopped) };
            }
        }
    }

    /// Stops a thread; false if it has ended.
    fn stop(&mut self, thread: pid_t) -> io::Result<bool> {
        match request(libc::PTRACE_SEIZE, thread, 0) {
            Ok(()) => {}
            // A main thread that has ended stays until the process ends, and must not be traced.
            Err(_) if !is_alive(thread) => return Ok(false),
            Err(error) => return Err(error),
        }
        // From now on `drop` detaches it.
        self.threads.push(thread);
        request(libc::PTRACE_INTERRUPT, thread, 0)?;
        loop {
            match wait(thread)? {
                Wait::Ended => {
                    self.threads.pop();
                    return Ok(false);
                }
                Wait::Interrupted => return Ok(true),
                // The signal was already pending: it is delivered first.
                Wait::Signal(signal) => {
                    request(libc::PTRACE_CONT, thread, signal)?;
                    request(libc::PTRACE_INTERRUPT, thread, 0)?;
                }
            }
        }
    }

    /// Makes a thread execute a system call with the `syscall` instruction at `instruction`, and
    /// returns the result. The thread later continues as if nothing had happened.
    pub(super) fn call(
        &mut self,
        instruction: u64,
        number: i64,
        arguments: [u64; 6],
    ) -> io::Result<i64> {
        let &thread = self.threads.first().ok_or_else(gone)?;
        let kept = registers(thread)?;
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        // Mark it as outside a system call, so that the kernel restarts none.
        let asked = Registers {
            rip: instruction,
            rax: number as u64,
            orig_rax: u64::MAX,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..kept
        };
        set_registers(thread, &asked)?;
        let stepped = self.step(thread);
        let result = registers(thread).map(|after| after.rax as i64);
        set_registers(thread, &kept)?;
        stepped?;
        match result? {
            error @ -4095..=-1 => Err(io::Error::from_raw_os_error(-error as i32)),
            result => Ok(result),
        }
    }

    /// Lets a thread execute one instruction. A signal that arrives meanwhile is sent again, for
    /// the thread to handle when it continues.
    fn step(&self, thread: pid_t) -> io::Result<()> {
        let mut early = Vec::new();
        let result = loop {
            request(libc::PTRACE_SINGLESTEP, thread, 0)?;
            match wait(thread)? {
                Wait::Signal(libc::SIGTRAP) => break Ok(()),
                Wait::Signal(signal) => early.push(signal),
                Wait::Interrupted => {}
                Wait::Ended => break Err(gone()),
            }
        };
        for signal in early {
            // SAFETY: the call touches no memory. The thread is stopped, so it still exists.
            unsafe { libc::syscall(libc::SYS_tkill, thread, signal) };
        }
        result
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for &thread in &self.threads {
            // A thread killed meanwhile no longer exists.
            let _ = request(libc::PTRACE_DETACH, thread, 0);
        }
    }
}

/// Returns the folder below `/proc` with the memory and the files of a process: its own, or if its
/// main thread has ended, which leaves nothing there, that of another thread. `None` if the process
/// has ended.
pub(super) fn folder(process: pid_t) -> Option<PathBuf> {
    let own = PathBuf::from(format!("/proc/{process}"));
    if is_alive(process) {
        return Some(own);
    }
    let thread = threads(process).ok()?.into_iter().find(|&thread| is_alive(thread))?;
    Some(own.join(format!("task/{thread}")))
}

/// Returns whether a thread exists and has not ended.
fn is_alive(thread: pid_t) -> bool {
    let state = stat(thread).and_then(|fields| fields.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Returns the fields of `/proc/PID/stat` from the state on.
pub(super) fn stat(thread: pid_t) -> Option<String> {
    let line = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    // The name, in parentheses, may contain spaces.
    Some(line.rsplit_once(')')?.1.trim_start().to_owned())
}

/// Returns the threads of a process.
fn threads(process: pid_t) -> io::Result<Vec<pid_t>> {
    let entries = fs::read_dir(format!("/proc/{process}/task"))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}

/// Makes a request that reads and writes no memory of ours.
fn request(request: c_uint, thread: pid_t, data: c_int) -> io::Result<()> {
    // SAFETY: the requests made here take a number, and touch no memory of this process.
    let done = unsafe { libc::ptrace(request, thread, ptr::null_mut::<c_void>(), data as usize) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn registers(thread: pid_t) -> io::Result<Registers> {
    // SAFETY: all zeros is a valid value, and the registers are valid for writes.
    let (done, registers) = unsafe {
        let mut registers: Registers = std::mem::zeroed();
        let none = ptr::null_mut::<c_void>();
        (libc::ptrace(libc::PTRACE_GETREGS, thread, none, &raw mut registers), registers)
    };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(registers) }
}

fn set_registers(thread: pid_t, registers: &Registers) -> io::Result<()> {
    let none = ptr::null_mut::<c_void>();
    // SAFETY: the registers are valid for reads.
    let done = unsafe { libc::ptrace(libc::PTRACE_SETREGS, thread, none, registers) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What `waitpid` reported about a thread.
enum Wait {
    Ended,
    Interrupted,
    /// A signal is about to be delivered to it.
    Signal(c_int),
}

/// Waits until a thread has stopped.
fn wait(thread: pid_t) -> io::Result<Wait> {
    let began = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: the status is valid for writes.
        let found = unsafe { libc::waitpid(thread, &mut status, libc::__WALL | libc::WNOHANG) };
        match found {
            -1 => return Err(io::Error::last_os_error()),
            0 if began.elapsed() > PATIENCE => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "a thread does not stop"));
            }
            // The end of a main thread is not reported before that of the process.
            0 if !is_alive(thread) => return Ok(Wait::Ended),
            0 => std::thread::sleep(Duration::from_micros(200)),
            _ if !libc::WIFSTOPPED(status) => return Ok(Wait::Ended),
            _ if status >> 16 == libc::PTRACE_EVENT_STOP => return Ok(Wait::Interrupted),
            _ => return Ok(Wait::Signal(libc::WSTOPSIG(status))),
        }
    }
}
