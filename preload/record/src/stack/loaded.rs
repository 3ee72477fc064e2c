//! Finds the loaded file that an address is in, by asking the loader.
//!
//! glibc 2.35 and later answer without a lock (`_dl_find_object`). Elsewhere `dl_iterate_phdr` is
//! used, which takes the loader's lock; the recorder holds no lock of its own, so there is no
//! deadlock.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem;
use core::ops::Range;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};
#[cfg(target_arch = "aarch64")]
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use libc::{Elf64_Ehdr as Ehdr, Elf64_Phdr as Phdr};
use pagewise_trace::raw::Loaded;

/// The unwind tables of a file: the start of their index, and the segment that index and table are
/// in.
#[cfg(target_arch = "x86_64")]
pub(super) struct Tables {
    pub(super) hdr: u64,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// A loaded file.
struct Object {
    /// Start and end of the file, or of the segment that the address is in.
    start: u64,
    end: u64,
    bias: u64,
    name: *const c_char,
    segments: &'static [Phdr],
}

/// The result of `_dl_find_object` (glibc's `dlfcn.h`).
#[repr(C)]
struct Found {
    flags: u64,
    start: *mut c_void,
    end: *mut c_void,
    link_map: *const LinkMap,
    eh_frame: *mut c_void,
    reserved: [u64; 7],
}

/// The beginning of the loader's own description of a file (`link.h`).
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const c_char,
}

/// The header of a note (`elf.h`).
#[repr(C)]
struct Nhdr {
    n_namesz: u32,
    n_descsz: u32,
    n_type: u32,
}

type FindObject = unsafe extern "C" fn(*mut c_void, *mut Found) -> c_int;

/// The address of `_dl_find_object`; null if it has not been looked up, 1 if there is none.
static FIND_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// Start and end of this library.
#[cfg(target_arch = "aarch64")]
static OURS: (AtomicU64, AtomicU64) = (AtomicU64::new(0), AtomicU64::new(0));

/// Stores the address of `_dl_find_object`. Must be called when the real functions are found.
pub(crate) fn look(found: Option<unsafe extern "C" fn()>) {
    let none = core::ptr::without_provenance_mut(1);
    FIND_OBJECT.store(found.map_or(none, |function| function as *mut c_void), Release);
}

/// Returns the addresses at which this library is loaded.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) fn ours() -> Range<u64> {
    let end = OURS.1.load(Acquire);
    if end == 0 { find_ours() } else { OURS.0.load(Relaxed)..end }
}

#[cfg(target_arch = "aarch64")]
#[cold]
fn find_ours() -> Range<u64> {
    let object = object(find_ours as fn() -> Range<u64> as usize as u64);
    let range = object.map_or(0..0, |object| object.start..object.end);
    OURS.0.store(range.start, Relaxed);
    OURS.1.store(range.end, Release);
    range
}

/// Returns the file that an address is in.
fn object(address: u64) -> Option<Object> {
    let function = FIND_OBJECT.load(Acquire);
    if function.addr() <= 1 {
        return iterated(address);
    }
    // SAFETY: the pointer is that of the C library's function of this name and type.
    let function: FindObject = unsafe { mem::transmute(function) };
    // SAFETY: zeros are a valid `Found`, which the call overwrites; any address is allowed. The
    // result is valid while the file is loaded, and it is: one of its functions is on this thread's
    // stack.
    unsafe {
        let mut found: Found = mem::zeroed();
        if function(core::ptr::without_provenance_mut(address as usize), &mut found) != 0 {
            return None;
        }
        // If there are gaps between the file's segments, this is the start of the segment that the
        // address is in.
        let head = &*found.start.cast::<Ehdr>();
        if head.e_ident[..4] != *b"\x7fELF" || head.e_phentsize as usize != size_of::<Phdr>() {
            return iterated(address);
        }
        let segments = found.start.byte_add(head.e_phoff as usize).cast::<Phdr>();
        Some(Object {
            start: found.start.addr() as u64,
            end: found.end.addr() as u64,
            bias: (*found.link_map).bias as u64,
            name: (*found.link_map).name,
            segments: core::slice::from_raw_parts(segments, head.e_phnum.into()),
        })
    }
}

/// Does the same without `_dl_find_object`; the bounds are those of the segment.
#[cold]
fn iterated(address: u64) -> Option<Object> {
    struct Search(u64, Option<Object>);
    extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader passes its description and the `Search` below, which outlives the
        // call.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        // SAFETY: the table is the loader's own, and valid while the file is loaded.
        let segments =
            unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        #[allow(clippy::unnecessary_cast, reason = "with pointers of 32 bits it is one")]
        let bias = info.dlpi_addr as u64;
        let mut loads =
            segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD).map(|load| {
                let start = bias.wrapping_add(load.p_vaddr);
                start..start.wrapping_add(load.p_memsz)
            });
        let Some(Range { start, end }) = loads.find(|load| load.contains(&search.0)) else {
            return 0;
        };
        search.1 = Some(Object { start, end, bias, name: info.dlpi_name, segments });
        1
    }
    let mut search = Search(address, None);
    // SAFETY: the callback gets the search, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut search).cast()) };
    search.1
}

/// Returns the number of files unloaded so far. Takes the loader's lock.
pub(super) fn unloaded() -> u64 {
    extern "C" fn first(info: *mut libc::dl_phdr_info, len: usize, count: *mut c_void) -> c_int {
        if len >= size_of::<libc::dl_phdr_info>() {
            // SAFETY: the loader's description has `len` bytes; the count outlives the call.
            unsafe { *count.cast::<libc::c_ulonglong>() = (*info).dlpi_subs };
        }
        1
    }
    let mut count = 0_u64;
    // SAFETY: the callback gets the count, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

impl Object {
    /// Returns the addresses of the segments of this kind.
    fn segments(&self, kind: u32) -> impl Iterator<Item = Range<u64>> + '_ {
        self.segments.iter().filter(move |segment| segment.p_type == kind).map(|segment| {
            let start = self.bias.wrapping_add(segment.p_vaddr);
            start..start.wrapping_add(segment.p_memsz)
        })
    }

    /// Returns the build id; empty if there is none.
    fn build_id(&self) -> &'static [u8] {
        const BUILD_ID: u32 = 3;
        let loaded = |at: u64| self.segments(libc::PT_LOAD).any(|segment| segment.contains(&at));
        for notes in self.segments(libc::PT_NOTE).filter(|notes| loaded(notes.start)) {
            let mut at = notes.start;
            while at + size_of::<Nhdr>() as u64 <= notes.end && at % 4 == 0 {
                // SAFETY: the note is within a loaded segment; the loader aligns notes to 4 bytes.
                let note = unsafe { &*core::ptr::with_exposed_provenance::<Nhdr>(at as usize) };
                let padded = |len: u32| u64::from(len).next_multiple_of(4);
                let text = at + size_of::<Nhdr>() as u64 + padded(note.n_namesz);
                let end = text + padded(note.n_descsz);
                if end > notes.end {
                    break;
                }
                if note.n_type == BUILD_ID && note.n_namesz == 4 && note.n_descsz <= 64 {
                    let start = core::ptr::with_exposed_provenance::<u8>(text as usize);
                    // SAFETY: the id is within the notes, which are loaded.
                    return unsafe { core::slice::from_raw_parts(start, note.n_descsz as usize) };
                }
                at = end;
            }
        }
        &[]
    }
}

/// Passes the unwind tables of the file that an address is in to `tell`, if there are any.
#[cfg(target_arch = "x86_64")]
pub(super) fn tables(address: u64, tell: impl FnOnce(&Tables)) {
    let Some(object) = object(address) else { return };
    let Some(hdr) = object.segments(libc::PT_GNU_EH_FRAME).next() else { return };
    if let Some(load) = object.segments(libc::PT_LOAD).find(|load| load.contains(&hdr.start)) {
        tell(&Tables { hdr: hdr.start, start: load.start, end: load.end });
    }
}

/// Passes a description of the file that an address is in to `tell`, if there is one.
pub(super) fn tell(address: u64, tell: &mut dyn FnMut(&Loaded<'_>)) {
    let Some(object) = object(address) else { return };
    let path = if object.name.is_null() {
        b""
    } else {
        // SAFETY: the loader's name is null or a C string.
        unsafe { CStr::from_ptr(object.name) }.to_bytes()
    };
    let mut directory = [0_u8; 1024];
    let mut len = 0;
    if path.first().is_some_and(|&first| first != b'/') {
        // SAFETY: the buffer is valid for writes of its length.
        let count =
            unsafe { libc::syscall(libc::SYS_getcwd, directory.as_mut_ptr(), directory.len()) };
        // The count includes the 0 byte at the end of the path.
        len = usize::try_from(count).map_or(0, |count| count.saturating_sub(1));
    }
    let Object { start, end, bias, .. } = object;
    let build_id = object.build_id();
    tell(&Loaded { start, end, bias, build_id, directory: &directory[..len], path });
}
