//! A process's memory, through its files below `/proc`: [`Memory`], [`Maps`].

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Context;

/// Reads and writes a process's memory, also after the thread has ended in whose folder below
/// `/proc` it was found, and even where the process itself cannot write.
pub(super) struct Memory(File);

impl Memory {
    pub(super) fn of(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("mem");
        let file = File::options().read(true).write(true).open(&path);
        Ok(Self(file.with_context(|| format!("{} cannot be opened", path.display()))?))
    }

    pub(super) fn read(&self, address: u64, len: usize) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let read = self.0.read_exact_at(&mut bytes, address);
        read.with_context(|| format!("{len} bytes at {address:#x} cannot be read"))?;
        Ok(bytes)
    }

    pub(super) fn words(&self, address: u64, count: usize) -> anyhow::Result<Vec<u64>> {
        let bytes = self.read(address, count * 8)?;
        Ok(bytes.chunks_exact(8).map(word).collect())
    }

    pub(super) fn word(&self, address: u64) -> anyhow::Result<u64> {
        Ok(word(&self.read(address, 8)?))
    }

    pub(super) fn half(&self, address: u64) -> anyhow::Result<u32> {
        Ok(half(&self.read(address, 4)?))
    }

    /// Reads a NUL-terminated text of at most 4 KiB.
    pub(super) fn text(&self, address: u64) -> anyhow::Result<Vec<u8>> {
        const PAGE: u64 = 4096;
        let mut text = Vec::new();
        let mut at = address;
        while text.len() < PAGE as usize {
            // Do not read past the page, which may be the last one mapped.
            let part = self.read(at, (PAGE - at % PAGE) as usize)?;
            if let Some(end) = part.iter().position(|&byte| byte == 0) {
                text.extend(&part[..end]);
                return Ok(text);
            }
            at += part.len() as u64;
            text.extend(part);
        }
        anyhow::bail!("text at {address:#x} does not end")
    }

    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> anyhow::Result<()> {
        let written = self.0.write_all_at(bytes, address);
        written.with_context(|| format!("{} bytes at {address:#x} cannot be written", bytes.len()))
    }
}

/// Returns the first word of the bytes.
pub(super) fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
}

/// Returns the first half-word of the bytes.
pub(super) fn half(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |half| u32::from_ne_bytes(*half))
}

/// The mappings of the process.
pub(super) struct Maps(Vec<Map>);

struct Map {
    start: u64,
    end: u64,
    /// Device and inode of the file; `None` for other memory.
    file: Option<(String, u64)>,
    name: String,
}

impl Maps {
    pub(super) fn of(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("maps");
        let text = fs::read_to_string(&path);
        let text = text.with_context(|| format!("{} cannot be read", path.display()))?;
        Ok(Self(text.lines().filter_map(Map::parse).collect()))
    }

    /// Returns the file mapped at an address.
    pub(super) fn file(&self, address: u64) -> Option<&(String, u64)> {
        let after = self.0.partition_point(|map| map.start <= address);
        let map = self.0.get(after.checked_sub(1)?)?;
        map.file.as_ref().filter(|_| address < map.end)
    }

    /// Returns the start and end of the mapping with this name.
    pub(super) fn named(&self, name: &str) -> Option<(u64, u64)> {
        self.0.iter().find(|map| map.name == name).map(|map| (map.start, map.end))
    }
}

impl Map {
    /// `START-END RIGHTS OFFSET DEVICE INODE NAME`
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let device = fields.nth(2)?.to_owned();
        let number: u64 = fields.next()?.parse().ok()?;
        Some(Self {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            file: (number != 0).then_some((device, number)),
            name: fields.next().unwrap_or_default().to_owned(),
        })
    }
}
