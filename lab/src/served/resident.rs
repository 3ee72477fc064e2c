//! The resources used by a replay: peak resident memory, and page faults.
//!
//! Every OS page of every block is written, as by a program that uses all that it requests. The
//! kernel's own record of the peak is inexact for small programs (its counters lag by some dozens
//! of pages), and includes everything resident before. So the replay queries the amount of
//! anonymous memory, which the kernel computes from the page tables: whenever the requested bytes
//! exceed their last maximum by a 64th and at least an OS page, and at each 256th of the run. The
//! first query is just before the first block; its result is subtracted.

use std::alloc::Layout;
use std::fs::File;
use std::io::Read;
use std::ptr::NonNull;

use anyhow::Context;
use pagewise_replay::system::charged::Faults;
use pagewise_replay::workload::Target;
use serde::{Deserialize, Serialize};

use crate::touched::os_page_size;

/// Number of equal parts of a run; memory is queried at the end of each.
const PARTS: u64 = 256;
/// Memory is also queried when the requested bytes have grown by one of this many parts.
const STEP: usize = 64;

/// The resources used by a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// Peak of the resident bytes, beyond those resident before.
    pub(crate) resident: u64,
    /// Minor page faults.
    pub(crate) faults: u64,
}

/// A target whose blocks are written and whose memory is watched.
pub(super) struct Watched<'t, T: ?Sized> {
    target: &'t mut T,
    os_page: usize,
    requested: usize,
    /// Query again when this much is requested, or after this many more operations.
    query_at: usize,
    query_after: u64,
    part: u64,
    before: Option<Memory>,
    /// The peak so far, including the memory resident before the replay.
    peak: u64,
    failed: Option<anyhow::Error>,
}

impl<'t, T: Target + ?Sized> Watched<'t, T> {
    /// Watches a replay of `pairs` pairs of allocation and free.
    pub(super) fn new(target: &'t mut T, pairs: u64) -> Self {
        let part = (pairs / PARTS).max(1);
        Self {
            target,
            os_page: os_page_size(),
            requested: 0,
            query_at: 0,
            query_after: part,
            part,
            before: None,
            peak: 0,
            failed: None,
        }
    }

    /// Returns the resources used by the replay.
    ///
    /// # Errors
    /// If the system does not report them.
    pub(super) fn finish(mut self) -> anyhow::Result<Memory> {
        self.query();
        let faults = Faults::of_process().minor;
        if let Some(error) = self.failed {
            return Err(error);
        }
        let before = self.before.unwrap_or(Memory { resident: self.peak, faults });
        Ok(Memory {
            resident: self.peak.saturating_sub(before.resident),
            faults: faults.saturating_sub(before.faults),
        })
    }

    /// Measures the memory before the first block.
    fn begin(&mut self) {
        if self.before.is_none() {
            // The first query touches the memory that queries need.
            self.query();
            self.query();
            self.before = Some(Memory { resident: self.peak, faults: Faults::of_process().minor });
        }
    }

    /// Writes to each OS page of a new block, and queries memory if it is due.
    fn wrote(&mut self, block: NonNull<u8>, size: usize) {
        for offset in (0..size).step_by(self.os_page).chain([size - 1]) {
            // SAFETY: the block is live and longer than `offset`; a replay does not read blocks, so
            // their old contents do not matter.
            unsafe { block.add(offset).write_volatile(1) };
        }
        self.requested += size;
        self.query_after -= 1;
        if self.requested >= self.query_at || self.query_after == 0 {
            self.query();
        }
    }

    fn query(&mut self) {
        self.query_after = self.part;
        if self.requested >= self.query_at {
            self.query_at = self.requested + (self.requested / STEP).max(self.os_page);
        }
        match anonymous() {
            Ok(bytes) => self.peak = self.peak.max(bytes),
            Err(error) => self.failed = Some(error),
        }
    }
}

// SAFETY: the contract is the target's own.
unsafe impl<T: Target + ?Sized> Target for Watched<'_, T> {
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.begin();
        let block = self.target.allocate(layout)?;
        self.wrote(block, layout.size());
        Some(block)
    }

    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: the caller gives the same guarantees.
        let block = unsafe { self.target.reallocate(block, layout, new_size) }?;
        self.requested -= layout.size();
        self.wrote(block, new_size);
        Some(block)
    }

    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        self.requested -= layout.size();
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.target.free(block, layout) };
    }
}

/// Returns the exact number of resident bytes of anonymous memory of this process.
fn anonymous() -> anyhow::Result<u64> {
    const FILE: &str = "/proc/self/smaps_rollup";
    let mut text = [0; 2048];
    let mut length = 0;
    let mut file = File::open(FILE)
        .with_context(|| format!("resident memory is unknown: {FILE} cannot be read"))?;
    loop {
        match file.read(&mut text[length..])? {
            0 => break,
            read => length += read,
        }
    }
    let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kibibytes =
        line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    Ok(kibibytes.with_context(|| format!("resident memory is unknown: {FILE} is malformed"))? << 10)
}
