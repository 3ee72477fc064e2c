//! A trace that is written while its log is surveyed, so that the log is read only once: [`Draft`].
//!
//! It is in an unnamed file, and becomes the trace if its log is chosen. Then the functions of its
//! call stacks and the figures of the header are added.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};

use pagewise::trace::{Event, Header, Origin, Stacks, WriteError, Writer};
use pagewise_replay::progress::Progress;

use super::symbols;

pub(super) struct Draft {
    pub(super) timed: Timed<BufWriter<File>>,
    /// The tree of the call stacks, once it is known.
    pub(super) stacks: Stacks,
}

/// A writer that passes on each clock sample once, at its position.
pub(super) struct Timed<W> {
    pub(super) writer: Writer<W>,
    told: Option<u64>,
}

impl<W: Write + Seek> Timed<W> {
    /// Begins a trace, with or without call stacks.
    pub(super) fn new(out: W, origin: Origin, stacks: bool) -> Result<Self, WriteError> {
        let begin = if stacks { Writer::with_stacks } else { Writer::new };
        Ok(Self { writer: begin(out, origin)?, told: None })
    }

    #[inline]
    pub(super) fn write(
        &mut self,
        event: Event,
        site: u32,
        time: Option<u64>,
    ) -> Result<(), WriteError> {
        if self.told != time {
            self.told = time;
            time.into_iter().for_each(|time| self.writer.tell_time(time));
        }
        self.writer.write_at(event, site)
    }
}

impl Draft {
    /// Begins a draft in the directory for temporary files.
    pub(super) fn begin(origin: Origin, stacks: bool) -> anyhow::Result<Self> {
        let out = BufWriter::new(tempfile::tempfile()?);
        Ok(Self { timed: Timed::new(out, origin, stacks)?, stacks: Stacks::default() })
    }

    /// Completes the trace of a recording of `recorded` events, and returns its file.
    pub(super) fn finish(
        mut self,
        recorded: u64,
        progress: &Progress,
    ) -> anyhow::Result<(Header, File)> {
        symbols::find(&mut self.stacks, progress)?;
        let (header, out) = self.timed.writer.finish_into(recorded, &self.stacks)?;
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok((header, file))
    }
}
