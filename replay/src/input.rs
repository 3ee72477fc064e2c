//! Reading traces, for every command: within limits, from a file or standard input, with progress
//! if it takes long.
//!
//! A trace may come from anywhere, and a few hundred kilobytes of it can contain hundreds of
//! millions of events. So its header is read first: the reader returns no event that exceeds the
//! header's figures, which therefore bound the resources that the trace can take. A trace whose
//! figures exceed the limits is refused before any event is read.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use pagewise::trace::{Event, Header, ReadError, Reader, Reason, Stacks, Times};

use crate::printable::printable;
use crate::text::shell_word;
use crate::units;

/// The name of standard input, and of standard output, on the command line.
pub const STANDARD: &str = "-";

/// Limits on reading traces.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Limits on traces")]
pub struct Limits {
    /// Refuse a trace that takes more memory than this to follow or to replay; NOFREE and QUICK,
    /// which may use much more, run out of memory there [default: half of the machine's memory, at
    /// most 4G]
    #[arg(long, global = true, value_name = "BYTES", value_parser = units::parse_bytes)]
    memory: Option<usize>,
    /// Refuse a trace of more events than this; each MiB requested counts as one more event
    #[arg(long, global = true, value_name = "N", default_value_t = MOST_EVENTS)]
    most_events: u64,
}

/// About a billion events: a few minutes.
const MOST_EVENTS: u64 = 1 << 30;
/// Default maximum of memory for a trace, bytes.
const MOST_MEMORY: u64 = 4 << 30;
/// Maximum mebibytes that a request counts for: no allocator serves more, so the replay ends there.
const MOST_SERVED: u64 = 1 << 20;
/// Maximum bytes per live block in any command: for the reader's and the command's tables, while
/// they are copied to larger ones.
const PER_BLOCK: u64 = 160;
/// Maximum bytes per distinct size in any command.
const PER_SIZE: u64 = 96;

static LIMITS: OnceLock<Limits> = OnceLock::new();

impl Limits {
    /// Makes these the limits of this process.
    pub fn set(self) {
        // They are set once, at the start.
        let _ = LIMITS.set(self);
    }

    /// Returns the limits of this process.
    fn get() -> Self {
        let usual = || Self { memory: None, most_events: MOST_EVENTS };
        LIMITS.get().copied().unwrap_or_else(usual)
    }

    /// Returns the options that give a child process the same limits.
    pub fn options() -> Vec<String> {
        let limits = Self::get();
        let memory = format!("--memory={}", limits.memory());
        vec![memory, format!("--most-events={}", limits.most_events)]
    }

    /// Returns the maximum memory for a trace, in bytes.
    fn memory(self) -> u64 {
        self.memory.map_or_else(|| (machine_memory() / 2).min(MOST_MEMORY), |bytes| bytes as u64)
    }
}

/// Returns the memory of this machine, in bytes.
fn machine_memory() -> u64 {
    // SAFETY: plain queries.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).ok().zip(u64::try_from(size).ok()).map_or(u64::MAX, |(n, size)| n * size)
}

/// Refuses work that takes more than `--memory`: `bytes` bytes for `what`, for the trace at `path`.
///
/// # Errors
/// If it is more.
pub fn within_memory(path: &Path, bytes: u64, what: &str) -> anyhow::Result<()> {
    let most = Limits::get().memory();
    if bytes > most {
        bail!(
            "{}: {what} would take {}, but --memory allows {}",
            shown(path),
            units::bytes(bytes),
            units::bytes(most)
        );
    }
    Ok(())
}

/// Refuses work that takes as long as following more events than `--most-events`.
///
/// # Errors
/// If it does.
pub fn within_work(path: &Path, events: u64, what: &str) -> anyhow::Result<()> {
    let most = Limits::get().most_events;
    if events > most {
        bail!(
            "{}: {what} is too much work: --most-events allows {}",
            shown(path),
            units::thousands(most)
        );
    }
    Ok(())
}

/// Returns the maximum number of events of a trace.
pub fn most_events() -> u64 {
    Limits::get().most_events
}

/// Returns the maximum memory for a trace, in bytes.
pub fn most_memory() -> usize {
    usize::try_from(Limits::get().memory()).unwrap_or(usize::MAX)
}

/// Returns the maximum number of blocks that `--memory` allows to remember.
pub fn most_blocks() -> u64 {
    Limits::get().memory() / PER_BLOCK
}

/// Refuses more live blocks and distinct sizes than `--memory` allows to follow.
///
/// # Errors
/// If they are too many.
pub fn within_memory_of(path: &Path, blocks: u64, sizes: u64) -> anyhow::Result<()> {
    let bytes = blocks.saturating_mul(PER_BLOCK).saturating_add(sizes.saturating_mul(PER_SIZE));
    let what = || {
        let blocks = units::count(blocks, "live block");
        let sizes = units::count(sizes, "distinct size");
        if sizes.starts_with("0 ") { blocks } else { format!("{blocks} and {sizes}") }
    };
    if bytes > Limits::get().memory() { within_memory(path, bytes, &what()) } else { Ok(()) }
}

/// Opens a trace, reads its header and checks the header's figures against the limits.
///
/// # Errors
/// A file that cannot be read or is not a trace; a trace that exceeds the limits.
pub fn open(path: &Path) -> anyhow::Result<Events> {
    let named = |error: ReadError| error.in_file(Path::new(&shown(path)));
    let failed = |error| named(ReadError::from(error));
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if about.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()).into());
    }
    let reader = Reader::of_file(file).map_err(named)?.in_file(Path::new(&shown(path)));
    let events = reader.header().events;
    let most = Limits::get().most_events;
    if events > most {
        bail!(
            "{}: the header claims {}, but --most-events allows {}",
            shown(path),
            units::count(events, "event"),
            units::thousands(most)
        );
    }
    within_memory_of(path, reader.header().peak_blocks, 0)?;
    Ok(Events {
        reader,
        path: path.to_owned(),
        stamp: Stamp(about.dev(), about.ino(), about.len(), about.mtime(), about.mtime_nsec()),
        work: 0,
        most,
        count: 0,
        shown: Shown { began: Instant::now(), length: about.len(), bar: None, quiet: true },
    })
}

/// Distinguishes states of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64, u64, u64, i64, i64);

/// The events of a trace, in order. They end after an error.
pub struct Events {
    reader: Reader<BufReader<File>>,
    path: PathBuf,
    stamp: Stamp,
    /// Events so far, plus the mebibytes that they requested.
    work: u64,
    /// The limit on `work`.
    most: u64,
    count: u64,
    shown: Shown,
}

/// Events between clock readings.
const STRIDE: u64 = 1 << 16;

impl Events {
    /// Returns the same events, with progress on stderr if that is a terminal and reading takes
    /// long.
    pub fn with_progress(mut self) -> Self {
        self.shown.quiet = false;
        self
    }

    /// Makes room for `blocks` live blocks: see [`Reader::reserve`].
    pub fn reserve(&mut self, blocks: usize) {
        self.reader.reserve(blocks);
    }

    /// Returns the same events, keeping the trace's call stacks.
    pub fn with_stacks(mut self) -> Self {
        self.reader = self.reader.with_stacks();
        self
    }

    /// Returns the site of the last event, 0 if it has none: see [`Reader::site`].
    pub fn site(&self) -> u32 {
        self.reader.site()
    }

    /// Returns the trace's call stacks, after the last event.
    pub fn take_stacks(&mut self) -> Option<Stacks> {
        self.reader.take_stacks()
    }

    /// Returns the times of the trace's events, after the last event, if it has any.
    pub fn take_times(&mut self) -> Option<Times> {
        self.reader.take_times()
    }

    /// Returns the trace's header.
    pub fn header(&self) -> &Header {
        self.reader.header()
    }

    /// Returns the state of the file being read.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Counts an event against the limit.
    #[inline]
    fn weigh(&mut self, event: Event) -> anyhow::Result<()> {
        let size = match event {
            Event::Allocate { size, .. } | Event::Reallocate { size, .. } => size,
            _ => 0,
        };
        self.work += 1 + (size >> 20).min(MOST_SERVED);
        self.count += 1;
        if self.count.is_multiple_of(STRIDE) {
            self.shown.at(self.reader.bytes_read(), &self.path);
        }
        if self.work > self.most {
            bail!(
                "{}: following the requests of the first {} is too much work: --most-events allows \
                 {}",
                shown(&self.path),
                units::count(self.count, "event"),
                units::thousands(self.most)
            );
        }
        Ok(())
    }
}

impl Iterator for Events {
    type Item = anyhow::Result<Event>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let event = match self.reader.next()? {
            Ok(event) => event,
            Err(error) => return Some(Err(error.into())),
        };
        Some(match self.weigh(event) {
            Ok(()) => Ok(event),
            Err(error) => Err(error),
        })
    }
}

/// A progress bar that appears when reading has taken a while.
struct Shown {
    began: Instant,
    /// Length of the file, bytes.
    length: u64,
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl Shown {
    /// Reports that reading has reached this byte.
    fn at(&mut self, byte: u64, path: &Path) {
        const LONG: Duration = Duration::from_secs(1);
        if self.quiet || self.began.elapsed() < LONG {
            return;
        }
        let length = self.length;
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(length);
            let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {eta}  {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_message(format!("reading {}", shown(path)));
            bar
        });
        bar.set_position(byte);
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A temporary file, with a path that child processes can open as well.
struct Temporary {
    path: PathBuf,
    /// Its name for messages.
    name: String,
    /// Keeps the path valid. The file has no other name, so it is never left behind.
    _file: File,
}

static TEMPORARY: Mutex<Vec<Temporary>> = Mutex::new(Vec::new());

fn temporary_files() -> MutexGuard<'static, Vec<Temporary>> {
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a file to write, with a name for messages, and returns it with the path to read it by.
/// It lives as long as this process, and is never left behind.
///
/// # Errors
/// If there is no space for it.
pub fn temporary(name: &str) -> io::Result<(File, PathBuf)> {
    let file = tempfile::tempfile()?;
    let kept = file.try_clone()?;
    let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), kept.as_raw_fd()));
    let (name, shown) = (name.to_owned(), path.clone());
    temporary_files().push(Temporary { path: shown, name, _file: kept });
    Ok((file, path))
}

/// Returns these traces under names that can be read repeatedly: standard input (`-`) and pipes are
/// copied first.
///
/// # Errors
/// If a copy cannot be made, or would not be of a trace.
pub fn rereadable(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    paths.iter().map(|path| rereadable_one(path)).collect()
}

/// Like [`rereadable`], for one trace.
///
/// # Errors
/// If a copy cannot be made, or would not be of a trace.
pub fn rereadable_one(path: &Path) -> anyhow::Result<PathBuf> {
    if !is_once(path) {
        return Ok(path.to_owned());
    }
    let opened = Opened::new(path)?;
    match Reader::new(opened.start()) {
        Err(error) if matches!(error.reason(), Reason::NotATrace) => {
            Err(error.in_file(Path::new(&opened.name)).into())
        }
        _ => opened.rereadable(),
    }
}

/// Returns whether a file can be read only once: standard input (`-`), a device or a pipe.
fn is_once(path: &Path) -> bool {
    let is_other = || path.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir());
    path == Path::new(STANDARD) || is_other()
}

/// A file in any format whose start was read. A device or a pipe may have no end, so the start is
/// looked at before the rest is read.
pub struct Opened {
    path: PathBuf,
    /// Its name for messages.
    name: String,
    start: Vec<u8>,
    rest: Box<dyn Read>,
}

/// Bytes of a file's start.
const START: u64 = 512;

impl Opened {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn new(path: &Path) -> anyhow::Result<Self> {
        let is_standard = path == Path::new(STANDARD);
        let name = if is_standard { "standard input".to_owned() } else { shown(path) };
        if temporary_files().iter().any(|copy| copy.name == name) {
            bail!("{name} can be read only once");
        }
        let mut rest: Box<dyn Read> = if is_standard {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(path).with_context(|| name.clone())?)
        };
        let mut start = Vec::new();
        rest.by_ref().take(START).read_to_end(&mut start).with_context(|| name.clone())?;
        Ok(Self { path: path.to_owned(), name, start, rest })
    }

    /// Returns its name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its first bytes, all if they are fewer than 512.
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// Returns all of it, to read once.
    pub fn into_reader(self) -> impl Read {
        io::Cursor::new(self.start).chain(self.rest)
    }

    /// Returns a path by which it can be read repeatedly: that of a copy, unless it is a file.
    ///
    /// # Errors
    /// If a copy cannot be made.
    pub fn rereadable(self) -> anyhow::Result<PathBuf> {
        if !is_once(&self.path) {
            return Ok(self.path);
        }
        let name = self.name.clone();
        let most = Limits::get().memory();
        let unwritable = || format!("a copy of {name} cannot be written");
        let (mut file, path) = temporary(&name).with_context(unwritable)?;
        let (mut input, mut buffer, mut length) = (self.into_reader(), vec![0; 1 << 16], 0);
        loop {
            let count = match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).with_context(|| name.clone()),
            };
            file.write_all(&buffer[..count]).with_context(unwritable)?;
            length += count as u64;
            if length > most {
                bail!("{name}: longer than the {} that --memory allows", units::bytes(most));
            }
        }
        Ok(path)
    }
}

/// Returns a file's name for messages, on one line: that of the original, if it is a copy.
pub fn shown(path: &Path) -> String {
    let files = temporary_files();
    let file = files.iter().find(|file| file.path == path);
    let name = file.map_or_else(|| path.display().to_string(), |file| file.name.clone());
    printable(&name).into_owned()
}

/// Returns the trace as an argument of a suggested command: `TRACE` if it was no file, since it can
/// be read only once.
pub fn argument(path: &Path) -> String {
    let is_copy = temporary_files().iter().any(|copy| copy.path == path);
    if is_copy { "TRACE".to_owned() } else { shell_word(&shown(path)) }
}

/// Returns the name of a trace's file for messages and comments: one line, whatever its name.
pub fn file_name(path: &Path) -> String {
    let shown = PathBuf::from(shown(path));
    printable(&shown.file_name().unwrap_or(shown.as_os_str()).to_string_lossy()).into_owned()
}

/// Returns a trace's name for messages: its file name without the extension.
pub fn trace_name(path: &Path) -> String {
    let shown = PathBuf::from(shown(path));
    printable(&shown.file_stem().unwrap_or(shown.as_os_str()).to_string_lossy()).into_owned()
}
