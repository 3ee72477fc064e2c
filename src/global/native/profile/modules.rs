//! The files that the process's code is from: their executable mappings, as the kernel lists them,
//! and their build ids.

use core::ops::Range;

use super::grown::{Grown, Plain};
use crate::os::File;

/// The most bytes kept of a build id; most have 20.
const ID: usize = 32;

/// An executable mapping of a file.
#[derive(Clone, Copy)]
pub(super) struct Module {
    /// Address of its first byte.
    pub(super) start: usize,
    /// Address behind its last byte.
    pub(super) end: usize,
    /// Offset in the file at which the mapping starts.
    pub(super) offset: u64,
    /// Position and length of its name in [`Modules::names`].
    name: (usize, usize),
    /// Its build id, in the first `id_len` bytes.
    id: [u8; ID],
    /// Bytes of the build id; 0 if there is none.
    id_len: usize,
}

// SAFETY: all fields are integers.
unsafe impl Plain for Module {}

impl Module {
    /// Returns the file's build id; empty if it has none.
    pub(super) fn build_id(&self) -> &[u8] {
        &self.id[..self.id_len]
    }
}

/// All modules, in address order.
pub(super) struct Modules {
    list: Grown<Module>,
    /// Their names, one behind the other.
    names: Grown<u8>,
}

impl Modules {
    /// Lists the modules of this process, as far as they can be determined.
    pub(super) fn of_process() -> Self {
        /// The most bytes of a line: the fields in front, and the longest path.
        const LINE: usize = 4096 + 128;
        let mut modules = Self { list: Grown::new(), names: Grown::new() };
        let (Some(file), Some(mut line)) =
            (File::open(c"/proc/self/maps"), Grown::<u8>::zeros(LINE))
        else {
            return modules;
        };
        let line = line.as_mut_slice();
        let mut used = 0;
        loop {
            match file.read(&mut line[used..]) {
                // The file ends, or a line is longer than any path.
                0 => return modules,
                read => used += read,
            }
            let mut done = 0;
            while let Some(len) = line[done..used].iter().position(|&byte| byte == b'\n') {
                modules.add(&line[done..done + len]);
                done += len + 1;
            }
            line.copy_within(done..used, 0);
            used -= done;
        }
    }

    pub(super) fn list(&self) -> &[Module] {
        self.list.as_slice()
    }

    /// Returns the path of a module's file.
    pub(super) fn name(&self, module: &Module) -> &[u8] {
        let (first, len) = module.name;
        self.names.as_slice().get(first..first + len).unwrap_or_default()
    }

    /// Returns the index of the module that contains `address`.
    pub(super) fn find(&self, address: usize) -> Option<usize> {
        let after = self.list().partition_point(|module| module.start <= address);
        let found = after.checked_sub(1)?;
        (address < self.list()[found].end).then_some(found)
    }

    /// Adds the module that a line of `/proc/self/maps` describes, if it is code of a file.
    fn add(&mut self, line: &[u8]) -> Option<()> {
        let (Range { start, end }, offset, name) = parse(line)?;
        let first = self.names.as_slice().len();
        self.names.extend(name)?;
        self.names.push(0)?;
        let mut module =
            Module { start, end, offset, name: (first, name.len()), id: [0; ID], id_len: 0 };
        let path = core::ffi::CStr::from_bytes_with_nul(&self.names.as_slice()[first..]).ok();
        if let Some(file) = path.filter(|_| !name.starts_with(b"/dev/")).and_then(File::open) {
            module.id_len = build_id(&|to, at| file.read_at(to, at), &mut module.id).unwrap_or(0);
        }
        self.list.push(module)
    }
}

/// Parses a line of `/proc/self/maps` into addresses, file offset and path; `None` if it is not
/// code of a file.
fn parse(line: &[u8]) -> Option<(Range<usize>, u64, &[u8])> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let mut field = || core::str::from_utf8(fields.next()?).ok();
    let (start, end) = field()?.split_once('-')?;
    let addresses = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    let is_code = field()?.contains('x');
    let offset = u64::from_str_radix(field()?, 16).ok()?;
    let (_device, _inode) = (field()?, field()?);
    let name = fields.next()?.trim_ascii_start();
    (is_code && name.starts_with(b"/")).then_some((addresses, offset, name))
}

/// Reads a file's build id into `id` and returns its length; `None` if it has none. `read` reads at
/// an offset.
///
/// The file is in the format ELF of this process's word size. Its header says where the entries of
/// the program header table are (`e_phoff`, `e_phentsize`, `e_phnum`); an entry of type `PT_NOTE`,
/// where notes are (`p_offset`, `p_filesz`).
fn build_id(read: &dyn Fn(&mut [u8], u64) -> usize, id: &mut [u8; ID]) -> Option<usize> {
    /// The type `PT_NOTE`.
    const NOTE: u64 = 4;
    const WIDE: bool = usize::BITS == 64;
    let exactly = |to: &mut [u8], at| (read(to, at) == to.len()).then_some(());
    let mut header = [0; if WIDE { 64 } else { 52 }];
    exactly(&mut header, 0)?;
    if !header.starts_with(if WIDE { b"\x7fELF\x02" } else { b"\x7fELF\x01" }) {
        return None;
    }
    let word = if WIDE { 8 } else { 4 };
    let (first, size, count) = if WIDE { (32, 54, 56) } else { (28, 42, 44) };
    let (first, size) = (number(&header, first, word)?, number(&header, size, 2)?);
    for segment in 0..number(&header, count, 2)? {
        let mut entry = [0; if WIDE { 56 } else { 32 }];
        exactly(&mut entry, first.checked_add(segment * size)?)?;
        if number(&entry, 0, 4)? != NOTE {
            continue;
        }
        let (at, len) = if WIDE { (8, 32) } else { (4, 16) };
        let (at, len) = (number(&entry, at, word)?, number(&entry, len, word)?);
        let mut notes = [0; 512];
        let len = len.min(notes.len() as u64) as usize;
        exactly(&mut notes[..len], at)?;
        if let Some(found) = id_of_notes(&notes[..len]) {
            let len = found.len().min(ID);
            id[..len].copy_from_slice(&found[..len]);
            return Some(len);
        }
    }
    None
}

/// Reads a number of `len` bytes in native byte order.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + len)?;
    let append = |number, &byte| number << 8 | u64::from(byte);
    Some(if cfg!(target_endian = "little") {
        bytes.iter().rev().fold(0, append)
    } else {
        bytes.iter().fold(0, append)
    })
}

/// Finds the build id among ELF notes: type 3 of owner `GNU`.
fn id_of_notes(mut notes: &[u8]) -> Option<&[u8]> {
    const BUILD_ID: u64 = 3;
    loop {
        let (name, len) = (number(notes, 0, 4)? as usize, number(notes, 4, 4)? as usize);
        let kind = number(notes, 8, 4)?;
        let padded = |len: usize| len.checked_next_multiple_of(4);
        let content = padded(name)?.checked_add(12)?;
        if kind == BUILD_ID && notes.get(12..12 + name)? == b"GNU\0" {
            return notes.get(content..content.checked_add(len)?);
        }
        notes = notes.get(content.checked_add(padded(len)?)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_code_are_parsed() {
        let line = b"f7f2a000-f7f4b000 r-xp 00002000 08:01 1234        /usr/lib/a b.so";
        let (addresses, offset, name) = parse(line).expect("it is code");
        assert_eq!((addresses, offset), (0xf7f2_a000..0xf7f4_b000, 0x2000));
        assert_eq!(name, b"/usr/lib/a b.so");
        for other in [
            &b"f7f2a000-f7f4b000 rw-p 00002000 08:01 1234    /usr/lib/a.so"[..],
            b"7ffd1000-7ffd2000 r-xp 00000000 00:00 0                [vdso]",
            b"7ffd1000-7ffd2000 r-xp 00000000 00:00 0 ",
            b"",
            b"-",
            b"x-y r-xp 0 0 0 /a",
        ] {
            assert!(parse(other).is_none(), "{}", other.escape_ascii());
        }
    }

    /// A truncated file, or one with a changed byte, does not cause a panic.
    #[test]
    fn damaged_files_have_an_answer() {
        let program = std::fs::read(std::env::current_exe().expect("it is known")).expect("a file");
        let mut id = [0; ID];
        let read_of = |file: &[u8], to: &mut [u8], at: u64| {
            let from = file.get(at as usize..).unwrap_or_default();
            let len = to.len().min(from.len());
            to[..len].copy_from_slice(&from[..len]);
            len
        };
        let whole = build_id(&|to, at| read_of(&program, to, at), &mut id);
        for at in 0..2000 {
            let cut = &program[..at];
            assert_eq!(build_id(&|to, at| read_of(cut, to, at), &mut id).filter(|_| at < 64), None);
            let mut changed = program[..4096].to_vec();
            changed[at] ^= 255;
            let _ = build_id(&|to, at| read_of(&changed, to, at), &mut id);
        }
        // Linkers write a build id by default if gcc is configured that way.
        assert!(whole.is_none_or(|len| len >= 8));
    }

    #[test]
    fn this_function_lies_in_this_program() {
        let modules = Modules::of_process();
        let here = this_function_lies_in_this_program as fn() as *const () as usize;
        let module = &modules.list()[modules.find(here).expect("it lies somewhere")];
        let program = std::env::current_exe().expect("it is known");
        assert_eq!(modules.name(module), program.as_os_str().as_encoded_bytes());
        assert!(modules.find(0).is_none() && modules.find(usize::MAX).is_none());
        let file = std::fs::read(program).expect("a file");
        let read = |to: &mut [u8], at: u64| {
            let from = &file[file.len().min(at as usize)..];
            let len = to.len().min(from.len());
            to[..len].copy_from_slice(&from[..len]);
            len
        };
        let mut id = [0; ID];
        let len = build_id(&read, &mut id).unwrap_or(0);
        assert_eq!(module.build_id(), &id[..len]);
        assert_eq!(modules.find(module.start), modules.find(here));
        assert_ne!(modules.find(module.end), modules.find(here));
    }

    /// All mappings of code are found in the kernel's order, however long the list.
    #[test]
    fn modules_are_those_the_kernel_lists() {
        let listed = || -> Vec<(Range<usize>, u64, Vec<u8>)> {
            let maps = std::fs::read("/proc/self/maps").expect("it is there");
            let lines = maps.split(|&byte| byte == b'\n');
            lines
                .filter_map(|line| parse(line).map(|(at, offset, name)| (at, offset, name.into())))
                .collect()
        };
        let (before, modules, after) = (listed(), Modules::of_process(), listed());
        // All code is loaded before the tests begin.
        assert_eq!(before, after);
        let found = modules
            .list()
            .iter()
            .map(|module| (module.start..module.end, module.offset, modules.name(module).to_vec()));
        assert_eq!(found.collect::<Vec<_>>(), before);
        assert!(before.len() > 1 || cfg!(target_feature = "crt-static"));
    }

    /// Writes a number in native byte order.
    fn put(file: &mut [u8], at: usize, len: usize, number: u64) {
        let bytes = number.to_le_bytes();
        for (place, &byte) in bytes[..len].iter().enumerate() {
            let place = if cfg!(target_endian = "little") { place } else { len - 1 - place };
            file[at + place] = byte;
        }
    }

    fn note(name: &[u8], content: &[u8], kind: u32) -> Vec<u8> {
        let mut note = vec![0; 12];
        put(&mut note, 0, 4, name.len() as u64);
        put(&mut note, 4, 4, content.len() as u64);
        put(&mut note, 8, 4, kind.into());
        for part in [name, content] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    /// Returns an ELF file with these segments, each given by its type and content.
    fn file(segments: &[(u32, Vec<u8>)]) -> Vec<u8> {
        const WIDE: bool = usize::BITS == 64;
        let (header, entry) = if WIDE { (64, 56) } else { (52, 32) };
        // The table is behind a gap, and there are gaps between its entries.
        let (first, size) = (header + 24, entry + 8);
        let mut file = vec![0xee; first + segments.len() * size];
        file[..6].copy_from_slice(if WIDE { b"\x7fELF\x02\x01" } else { b"\x7fELF\x01\x01" });
        put(&mut file, if WIDE { 32 } else { 28 }, if WIDE { 8 } else { 4 }, first as u64);
        put(&mut file, if WIDE { 54 } else { 42 }, 2, size as u64);
        put(&mut file, if WIDE { 56 } else { 44 }, 2, segments.len() as u64);
        for (index, (kind, content)) in segments.iter().enumerate() {
            let entry = first + index * size;
            let at = file.len();
            put(&mut file, entry, 4, u64::from(*kind));
            let (offset, len) = if WIDE { (8, 32) } else { (4, 16) };
            put(&mut file, entry + offset, if WIDE { 8 } else { 4 }, at as u64);
            put(&mut file, entry + len, if WIDE { 8 } else { 4 }, content.len() as u64);
            file.extend(content);
        }
        file
    }

    /// The build id is found in any note segment, behind any other notes, and truncated if too
    /// long.
    #[test]
    fn a_build_id_is_found_wherever_it_stands() {
        let id: Vec<u8> = (1..=20).collect();
        let gnu = |content: &[u8]| note(b"GNU\0", content, 3);
        let others = [
            note(b"GNU\0", b"abcdef", 1),
            note(b"Go\0\0", b"no id", 3),
            note(b"stapsdt\0", b"", 3),
            note(b"", b"x", 3),
        ];
        let found = |segments: &[(u32, Vec<u8>)]| {
            let file = file(segments);
            let read = |to: &mut [u8], at: u64| {
                let from = file.get(at as usize..).unwrap_or_default();
                let len = to.len().min(from.len());
                to[..len].copy_from_slice(&from[..len]);
                len
            };
            let mut id = [0; ID];
            build_id(&read, &mut id).map(|len| id[..len].to_vec())
        };
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[(1, gnu(&id))]), None, "it is no segment of notes");
        assert_eq!(found(&[(4, gnu(&id))]), Some(id.clone()));
        assert_eq!(found(&[(4, others.concat())]), None);
        for behind in 0..=others.len() {
            let notes = [others[..behind].concat(), gnu(&id), others.concat()].concat();
            let segments = [(1, vec![7; 100]), (4, others.concat()), (6, vec![]), (4, notes)];
            assert_eq!(found(&segments), Some(id.clone()), "{behind}");
        }
        for len in [0, 1, 3, 8, 32, 33, 64] {
            let long: Vec<u8> = (0..len).collect();
            let kept = long[..usize::from(len).min(ID)].to_vec();
            assert_eq!(found(&[(4, [others[0].clone(), gnu(&long)].concat())]), Some(kept));
        }
        // An id that is cut off, or behind the bytes that are searched, is not found.
        let whole = gnu(&id);
        assert_eq!(found(&[(4, whole[..whole.len() - 1].to_vec())]), None);
        assert_eq!(found(&[(4, [note(b"GNU\0", &[0; 600], 1), whole].concat())]), None);
    }
}
