//! The files that a process has loaded, as its loader lists them: [`Object`]; their functions, and
//! the words through which their code calls functions of others: [`Slot`].
//!
//! ```text
//!  auxiliary vector ─► program headers ─► dynamic section ─► DT_DEBUG: r_debug ─► link_map ─► …
//! ```

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::memory::{Memory, half, word};

/// A loaded file.
pub(super) struct Object {
    pub(super) path: String,
    /// The difference between an address in memory and the address in the file.
    bias: u64,
    /// Address of its dynamic section.
    pub(super) dynamic: u64,
    tables: HashMap<u64, u64>,
}

/// A word that holds the address of a function.
pub(super) struct Slot {
    pub(super) address: u64,
    /// Index of the function in the list of wanted names.
    pub(super) function: usize,
    /// Whether the loader may bind the function lazily, at its first call.
    pub(super) is_lazy: bool,
}

// Tags of dynamic sections, and relocation types (`elf.h`).
const DT_PLTRELSZ: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_STRSZ: u64 = 10;
const DT_DEBUG: u64 = 21;
const DT_JMPREL: u64 = 23;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const R_X86_64_64: u64 = 1;
const R_X86_64_GLOB_DAT: u64 = 6;
const R_X86_64_JUMP_SLOT: u64 = 7;
/// Bytes of a symbol, and of a relocation.
const SYMBOL: usize = 24;
const RELOCATION: usize = 24;
/// Longest table accepted.
const LONGEST: u64 = 1 << 28;

/// Address of the loader's list of files.
pub(super) struct Loader {
    debug: u64,
}

impl Loader {
    /// `None` for a program without a loader, or whose loader has not run yet.
    pub(super) fn of(folder: &Path, memory: &Memory) -> anyhow::Result<Option<Self>> {
        const AT_PHDR: u64 = 3;
        const AT_PHNUM: u64 = 5;
        const PT_DYNAMIC: u32 = 2;
        const PT_PHDR: u32 = 6;
        let path = folder.join("auxv");
        let bytes =
            fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let words: Vec<u64> = bytes.chunks_exact(8).map(word).collect();
        let entry = |key| words.chunks_exact(2).find(|pair| pair[0] == key).map(|pair| pair[1]);
        let (Some(headers), Some(count)) = (entry(AT_PHDR), entry(AT_PHNUM)) else {
            return Ok(None);
        };
        let table = memory.read(headers, count.min(1000) as usize * 56)?;
        let address = |wanted: u32| {
            let header = table.chunks_exact(56).find(|header| half(header) == wanted)?;
            Some(word(&header[16..]))
        };
        // A program without a loader has no dynamic section.
        let (Some(dynamic), Some(own)) = (address(PT_DYNAMIC), address(PT_PHDR)) else {
            return Ok(None);
        };
        let tables = dynamic_section(memory, dynamic.wrapping_add(headers.wrapping_sub(own)))?;
        let debug = tables.get(&DT_DEBUG).copied().filter(|&debug| debug != 0);
        Ok(debug.map(|debug| Self { debug }))
    }

    /// Returns the files in symbol lookup order; `None` while the loader is changing the list.
    pub(super) fn objects(&self, memory: &Memory) -> anyhow::Result<Option<Vec<Object>>> {
        const MOST: usize = 1 << 14;
        if memory.half(self.debug + 24)? != 0 {
            return Ok(None);
        }
        let mut next = memory.word(self.debug + 8)?;
        let mut objects = Vec::new();
        while next != 0 {
            anyhow::ensure!(objects.len() < MOST, "the loader's list of files does not end");
            let [bias, name, dynamic, after] = memory.words(next, 4)?[..] else { break };
            objects.push(Object {
                path: String::from_utf8_lossy(&memory.text(name)?).into_owned(),
                bias,
                dynamic,
                tables: dynamic_section(memory, dynamic)?,
            });
            next = after;
        }
        Ok(Some(objects))
    }
}

fn dynamic_section(memory: &Memory, address: u64) -> anyhow::Result<HashMap<u64, u64>> {
    let mut tables = HashMap::new();
    for at in 0..512 {
        match memory.words(address + at * 16, 2)?[..] {
            [0, _] => break,
            [tag, value] => tables.insert(tag, value),
            _ => break,
        };
    }
    Ok(tables)
}

impl Object {
    /// Returns the address of a table.
    fn table(&self, tag: u64) -> Option<u64> {
        // Some loaders replace the section's offsets by addresses, others do not.
        let found = *self.tables.get(&tag)?;
        Some(if found < self.bias { found + self.bias } else { found })
    }

    fn len(&self, tag: u64) -> u64 {
        self.tables.get(&tag).copied().unwrap_or(0).min(LONGEST)
    }

    /// Returns the address of a function that the file defines.
    pub(super) fn function(&self, memory: &Memory, name: &str) -> anyhow::Result<Option<u64>> {
        let symbol = self.symbol(memory, name)?;
        let is_function = |symbol: &Vec<u8>| matches!(symbol[4] & 15, 0 | 2);
        Ok(symbol.filter(is_function).map(|symbol| self.bias + word(&symbol[8..])))
    }

    /// Returns the address of a variable that the file defines.
    pub(super) fn variable(&self, memory: &Memory, name: &str) -> anyhow::Result<Option<u64>> {
        Ok(self.symbol(memory, name)?.map(|symbol| self.bias + word(&symbol[8..])))
    }

    /// Returns a symbol that the file defines, found through the hash table that the loader itself
    /// uses.
    fn symbol(&self, memory: &Memory, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let (Some(hashes), Some(symbols), Some(names)) =
            (self.table(DT_GNU_HASH), self.table(DT_SYMTAB), self.table(DT_STRTAB))
        else {
            return Ok(None);
        };
        let step = |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte));
        let hash = name.bytes().fold(5381, step);
        let [buckets, first, filter] = [0, 4, 8].map(|at| memory.half(hashes + at));
        let (buckets, first, filter) = (buckets?, first?, filter?);
        if buckets == 0 {
            return Ok(None);
        }
        let bucket_table = hashes + 16 + u64::from(filter) * 8;
        let chains = bucket_table + u64::from(buckets) * 4;
        let mut index = memory.half(bucket_table + u64::from(hash % buckets) * 4)?;
        while index >= first && index != 0 {
            let found = memory.half(chains + u64::from(index - first) * 4)?;
            if found | 1 == hash | 1 {
                let symbol = memory.read(symbols + u64::from(index) * SYMBOL as u64, SYMBOL)?;
                let defined = symbol[6..8] != [0, 0];
                let called = memory.text(names + u64::from(half(&symbol)))?;
                if defined && called == name.as_bytes() {
                    return Ok(Some(symbol));
                }
            }
            if found & 1 == 1 {
                break;
            }
            index += 1;
        }
        Ok(None)
    }

    /// Returns the words that hold the addresses of functions of these names, for calls or as
    /// pointers.
    pub(super) fn slots(&self, memory: &Memory, wanted: &[&str]) -> anyhow::Result<Vec<Slot>> {
        let (Some(symbols), Some(names)) = (self.table(DT_SYMTAB), self.table(DT_STRTAB)) else {
            return Ok(Vec::new());
        };
        let mut relocations = Vec::new();
        for (table, len) in [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)] {
            if let Some(at) = self.table(table) {
                relocations.extend(memory.read(at, self.len(len) as usize)?);
            }
        }
        let named = relocations.chunks_exact(RELOCATION).filter_map(|relocation| {
            let info = word(&relocation[8..]);
            let is_plain = word(&relocation[16..]) == 0;
            let kind = info & 0xffff_ffff;
            let is_ours = [R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT].contains(&kind);
            (is_ours && is_plain).then(|| (word(relocation), info >> 32, kind))
        });
        let named: Vec<(u64, u64, u64)> = named.collect();
        let Some(last) = named.iter().map(|&(_, symbol, _)| symbol).max() else {
            return Ok(Vec::new());
        };
        let symbols = memory.read(symbols, (last as usize + 1).min(1 << 24) * SYMBOL)?;
        let names = memory.read(names, self.len(DT_STRSZ) as usize)?;
        let function = |symbol: u64| {
            let symbol = symbols.get(symbol as usize * SYMBOL..)?;
            let name = names.get(half(symbol) as usize..)?;
            let name = name.split(|&byte| byte == 0).next()?;
            wanted.iter().position(|wanted| wanted.as_bytes() == name)
        };
        let slot = |&(address, symbol, kind): &(u64, u64, u64)| {
            let is_lazy = kind == R_X86_64_JUMP_SLOT;
            let address = self.bias.wrapping_add(address);
            Some(Slot { address, function: function(symbol)?, is_lazy })
        };
        Ok(named.iter().filter_map(slot).collect())
    }
}
