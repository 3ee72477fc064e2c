//! `pagewise record --pid`: records a running process.
//!
//! ```text
//!  check ─► the process can be attached to: user, system, kind of program           (check)
//!  load  ─► slots of malloc … ─► a stub that calls `dlopen`, and then malloc   (slots, stub)
//!  hook  ─► slots of malloc … ─► the recorder's functions
//!  watch ─► hook files loaded since; until a signal, a limit, or the end
//!  leave ─► slots of malloc … ─► the program's own functions
//! ```
//! A slot is a word through which code in one file calls a function in another (an entry of the
//! global offset table). All threads are stopped while slots are written; in between the process
//! runs untraced. It loads the recorder at its next call of the allocator. The recorder stays
//! loaded, since the program may have kept the address of one of its functions; after the recording
//! they only forward calls.

mod check;
mod memory;
mod objects;
mod release;
mod slots;
mod stub;
mod threads;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use pagewise::trace::raw::{FUNCTIONS, REQUEST, Request};
use pagewise_replay::output;

use super::recorder;
use super::session::Asked;
use super::switch::Switch;
use super::watch::{Watch, Watching};
use crate::system::signals;
use memory::{Maps, Memory};
use objects::{Loader, Object};
use slots::{Patch, Targets};
use stub::State;
use threads::Stopped;

pub(super) use check::Process;

/// Interval between checks whether the recorder is loaded.
const TICK: Duration = Duration::from_millis(10);
/// Number of checks after which the user is told what the wait is for.
const SOON: u32 = 50;

/// A process that is attached to.
struct Attached<'p> {
    process: &'p Process,
    memory: Memory,
    loader: Loader,
    /// The program's own functions.
    real: Targets,
    /// The functions that its slots are changed to: the stub's, then the recorder's.
    ours: Targets,
    /// The path from which the recorder is loaded.
    library: String,
}

/// Records a process, with logs in `directory`, until it ends, a signal comes or a limit is
/// reached. Returns an error that leaves the recording intact: the process could not be stopped
/// later, so its slots may still lead to the recorder, which records no more.
///
/// The calling thread may stay attached to a thread that does not stop: it must end soon.
pub(super) fn record(
    process: &Process,
    directory: &Path,
    watch: &Watch,
    switch: Switch,
    asked: &Asked,
) -> anyhow::Result<Option<anyhow::Error>> {
    signals::stand_back();
    signals::pass_to_nobody();
    recorder::check()?;
    let _claim = process.claim()?;
    let library = recorder::put(directory)?;
    make_accessible(process, directory, &library)?;
    let mut attached = Attached::new(process, &library)?;
    // A recording that begins paused lasts from the moment when it is turned on.
    let longest = watch.duration.filter(|_| switch.is_on());
    if !attached.load(longest)? {
        anyhow::ensure!(!process.is_over(), "{process} ended before it allocated anything");
        anyhow::bail!("{process} was not changed: it allocated nothing in that time");
    }
    if let Err(error) = attached.hook(directory, asked) {
        attached.leave()?;
        return Err(error);
    }
    output::say(&format!("pagewise: {process} is being recorded; Ctrl-C ends the recording"));
    let mut watching = watch.begin(directory, switch);
    let mut followed = Ok(());
    let is_over =
        |watching: &Watching| process.is_over() || watching.is_over() || watching.have_stopped();
    while followed.is_ok() && !signals::interrupted() && !is_over(&watching) {
        std::thread::sleep(watching.wait());
        watching.check();
        // If the process ends meanwhile, there is nothing left to follow.
        followed =
            attached.follow().or_else(|error| if process.is_over() { Ok(()) } else { Err(error) });
    }
    watching.end();
    drop(watching);
    // Convert the recording: the signal was only meant to end the recording.
    signals::forget_interruption();
    let left = attached.leave();
    Ok(followed.and(left).err())
}

/// Gives the process access to the library and the logs' directory, if it belongs to another user.
fn make_accessible(process: &Process, directory: &Path, library: &Path) -> anyhow::Result<()> {
    fs::set_permissions(library, fs::Permissions::from_mode(0o755))?;
    let (user, group) = process.owner;
    // SAFETY: the call always succeeds and touches no memory.
    if user != unsafe { libc::geteuid() } {
        for entry in fs::read_dir(directory)? {
            chown(entry?.path(), Some(user), Some(group))?;
        }
        chown(directory, Some(user), Some(group))?;
    }
    process.check_finds(library)
}

impl<'p> Attached<'p> {
    fn new(process: &'p Process, library: &Path) -> anyhow::Result<Self> {
        // This shows whether it may be attached to. Its memory can be read while it runs.
        drop(process.stop()?);
        let folder = process.folder()?;
        let memory = Memory::of(&folder)?;
        let loader = Loader::of(&folder, &memory)?.with_context(|| {
            format!("cannot attach to {process}: it is statically linked, or has just started")
        })?;
        let library = library.to_str().context("the temporary directory's path is not UTF-8")?;
        let mut attached = Self {
            process,
            memory,
            loader,
            real: Targets::default(),
            ours: Targets::default(),
            library: library.to_owned(),
        };
        let (_stopped, objects) = attached.stop()?;
        attached.real = Targets::first(&attached.memory, &objects, &FUNCTIONS)?;
        anyhow::ensure!(
            attached.real.0[..stub::FUNCTIONS].iter().all(|&address| address != 0),
            "cannot attach to {process}: it has no shared library with malloc"
        );
        attached.release(&objects)?;
        Ok(attached)
    }

    /// Stops the process while its loader is not changing the list of files, and returns that list.
    fn stop(&self) -> anyhow::Result<(Stopped, Vec<Object>)> {
        for _ in 0..200 {
            let stopped = self.process.stop()?;
            if let Some(objects) = self.loader.objects(&self.memory)? {
                return Ok((stopped, objects));
            }
            drop(stopped);
            std::thread::sleep(TICK);
        }
        anyhow::bail!("{} keeps loading libraries: try again", self.process)
    }

    /// Makes the process load the recorder; false if it ended, a signal came, or this time passed
    /// before that.
    fn load(&mut self, longest: Option<Duration>) -> anyhow::Result<bool> {
        let (mut stopped, objects) = self.stop()?;
        let (code, data) = self.place_stub(&mut stopped, &objects)?;
        let stubs = Targets::of(&stub::functions(code));
        let names = &FUNCTIONS[..stub::FUNCTIONS];
        // The C library and the loader are left alone: only the program's own calls happen where it
        // could call `dlopen` itself.
        let callers = objects.iter().filter(|object| !self.defines(object));
        let patched = self.patch(callers, names, &[&self.real], &stubs)?;
        anyhow::ensure!(
            patched > 0,
            "{} does not call malloc of a shared library: it contains an allocator of its own",
            self.process
        );
        self.ours = stubs;
        drop(stopped);
        let state = self.wait(data, longest)?;
        if let State::Failed(why) = state {
            self.leave()?;
            let why = self.memory.text(why).unwrap_or_default();
            anyhow::bail!(
                "{} cannot load the recorder: {}",
                self.process,
                String::from_utf8_lossy(&why)
            );
        }
        if state != State::Loaded {
            self.leave()?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Returns whether the file defines the program's `malloc`, or belongs to the C library or its
    /// loader.
    fn defines(&self, object: &Object) -> bool {
        let name = object.path.rsplit('/').next().unwrap_or_default();
        let is_c = ["libc.so", "ld-linux", "ld-musl", "libdl.so", "libpthread.so"]
            .iter()
            .any(|begins| name.starts_with(begins));
        let malloc = object.function(&self.memory, FUNCTIONS[0]).ok().flatten();
        is_c || malloc.is_some()
    }

    /// Maps the stub and its data; returns their addresses.
    fn place_stub(&self, stopped: &mut Stopped, objects: &[Object]) -> anyhow::Result<(u64, u64)> {
        let find = |name: &str| -> anyhow::Result<u64> {
            let found = Targets::first(&self.memory, objects, &[name])?;
            Ok(found.0[0])
        };
        // Before glibc 2.34, the C library has names of its own for the functions of `libdl.so`.
        let either =
            |name, other| find(name).and_then(|at| if at == 0 { find(other) } else { Ok(at) });
        let mut real = [0; stub::FUNCTIONS];
        real.copy_from_slice(&self.real.0[..stub::FUNCTIONS]);
        let calls = stub::Calls {
            process: self.process.own_id,
            dlopen: either("dlopen", "__libc_dlopen_mode")?,
            dlerror: either("dlerror", "__errno_location")?,
            errno_location: find("__errno_location")?,
            real,
        };
        anyhow::ensure!(
            calls.dlopen != 0 && calls.errno_location != 0,
            "{} has a C library that cannot load the recorder",
            self.process
        );
        anyhow::ensure!(
            self.library.len() <= stub::LONGEST_PATH,
            "the temporary directory's path is too long"
        );
        let instruction = self.system_call()?;
        let mut map = |len: usize, rights: i32| -> anyhow::Result<u64> {
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
            let arguments = [0, len as u64, rights as u64, flags, u64::MAX, 0];
            let mapped = stopped.call(instruction, libc::SYS_mmap, arguments);
            mapped
                .map(|address| address as u64)
                .with_context(|| format!("{} cannot map memory", self.process))
        };
        let code = map(stub::CODE, libc::PROT_READ | libc::PROT_EXEC)?;
        let data = map(stub::DATA_AND_STACK, libc::PROT_READ | libc::PROT_WRITE)?;
        self.memory.write(code, &stub::code(data))?;
        self.memory.write(data, &stub::data(data, &calls, self.library.as_bytes()))?;
        Ok((code, data))
    }

    /// Returns the address of a `syscall` instruction, in the vDSO that the kernel maps into every
    /// process.
    fn system_call(&self) -> anyhow::Result<u64> {
        let found = Maps::of(&self.process.folder()?)?.named("[vdso]").and_then(|(start, end)| {
            let code = self.memory.read(start, (end - start) as usize).ok()?;
            let at = code.windows(2).position(|bytes| bytes == [0x0f, 0x05])?;
            Some(start + at as u64)
        });
        found.with_context(|| format!("{} has no vDSO", self.process))
    }

    /// Waits until the recorder was loaded or failed to load, the process ended, a signal came, or
    /// this time has passed.
    fn wait(&self, data: u64, longest: Option<Duration>) -> anyhow::Result<State> {
        let began = Instant::now();
        for tick in 0_u32.. {
            let Ok(words) = self.memory.words(data, stub::STATE_WORDS) else { break };
            let state = stub::state(&words);
            let late = longest.is_some_and(|longest| began.elapsed() >= longest);
            let over = late || self.process.is_over() || signals::interrupted();
            match state {
                State::Waiting if over => return Ok(state),
                // A thread that is loading may finish.
                State::Loading if self.process.is_over() => return Ok(state),
                State::Waiting | State::Loading => {}
                State::Loaded | State::Failed(_) => return Ok(state),
            }
            if tick == SOON {
                output::say(&format!(
                    "pagewise: waiting for {} to allocate; Ctrl-C leaves it unchanged",
                    self.process
                ));
            }
            std::thread::sleep(TICK);
        }
        Ok(State::Waiting)
    }

    /// Redirects the program's calls to the recorder.
    fn hook(&mut self, directory: &Path, asked: &Asked) -> anyhow::Result<()> {
        let (_stopped, objects) = self.stop()?;
        let recorder = objects.iter().find(|object| object.path == self.library);
        let recorder = recorder.context("the recorder is not loaded")?;
        let request = Request {
            functions: self.real.0[..].try_into()?,
            max_log: Some(asked.longest),
            stacks: asked.stacks.map_or(0, u64::from),
            directory: directory.as_os_str().as_bytes(),
        };
        let words = request.to_words().context("the temporary directory's path is too long")?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let place = recorder.variable(&self.memory, REQUEST)?.context("another recorder")?;
        self.memory.write(place, &bytes)?;
        let ours = Targets::first(&self.memory, std::slice::from_ref(recorder), &FUNCTIONS)?;
        self.patch(objects.iter(), &FUNCTIONS, &[&self.real, &self.ours], &ours)?;
        self.ours = ours;
        Ok(())
    }

    /// Hooks files loaded since the last check, and slots that the loader has overwritten.
    fn follow(&self) -> anyhow::Result<()> {
        if self.process.is_over() || !self.is_behind().unwrap_or(true) {
            return Ok(());
        }
        let _stopped = self.process.stop()?;
        // If the loader is changing its list, wait for the next check.
        if let Some(objects) = self.loader.objects(&self.memory)? {
            self.patch(objects.iter(), &FUNCTIONS, &[&self.real], &self.ours)?;
        }
        Ok(())
    }

    /// Returns whether any slot does not lead to the recorder. The process runs meanwhile, so the
    /// words read may be inconsistent.
    fn is_behind(&self) -> anyhow::Result<bool> {
        let Some(objects) = self.loader.objects(&self.memory)? else { return Ok(false) };
        let from = [&self.real];
        let patch = self.patching(&FUNCTIONS, &from, &self.ours)?;
        let mut callers = objects.iter().filter(|object| object.path != self.library);
        Ok(callers.any(|object| patch.find(object).is_ok_and(|slots| !slots.is_empty())))
    }

    /// Restores the program's own functions.
    fn leave(&self) -> anyhow::Result<()> {
        let (_stopped, objects) = match self.stop() {
            Err(_) if self.process.is_over() => return Ok(()),
            stopped => stopped?,
        };
        let from = [&self.ours];
        let patch = Patch { unbound: false, ..self.patching(&FUNCTIONS, &from, &self.real)? };
        for object in objects.iter().filter(|object| object.path != self.library) {
            patch.apply(object)?;
        }
        Ok(())
    }

    /// Redirects the slots of these files from some functions to others; returns how many were
    /// written.
    fn patch<'o>(
        &self,
        objects: impl Iterator<Item = &'o Object>,
        names: &[&'static str],
        from: &[&Targets],
        to: &Targets,
    ) -> anyhow::Result<usize> {
        let patch = self.patching(names, from, to)?;
        let mut written = 0;
        for object in objects.filter(|object| object.path != self.library) {
            written += patch.apply(object)?;
        }
        Ok(written)
    }

    fn patching<'a>(
        &'a self,
        names: &'a [&'static str],
        from: &'a [&'a Targets],
        to: &'a Targets,
    ) -> anyhow::Result<Patch<'a>> {
        let maps = Maps::of(&self.process.folder()?)?;
        Ok(Patch { memory: &self.memory, maps, names, from, to, unbound: true })
    }
}
