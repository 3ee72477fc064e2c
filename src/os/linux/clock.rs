//! The kernel's clocks, read without the C library.
//!
//! A program may replace `clock_gettime` or `nanosleep` (libfaketime does) by functions that
//! allocate. The allocator reads the clock while it holds locks, so such a function would deadlock.
//! Its time may also stand still, and then no memory would ever go back.
//!
//! The kernel maps a small library into each process (the vDSO), whose functions read clocks
//! without a system call. If the library has no function of a known name, the system call is made.

use core::ffi::{CStr, c_char, c_int, c_uint, c_ulong};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use core::{mem, ptr};

use libc::{Elf64_Ehdr, Elf64_Phdr, Elf64_Sym, clockid_t, timespec};

type ReadClock = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;

/// The function's name in the kernel's library.
const NAME: &CStr =
    if cfg!(target_arch = "aarch64") { c"__kernel_clock_gettime" } else { c"__vdso_clock_gettime" };

/// Writes the time of a clock. Returns whether it did.
pub(crate) fn read_clock(clock: clockid_t, time: &mut timespec) -> bool {
    /// The function has not been looked for yet.
    const UNKNOWN: usize = 0;
    /// There is no function.
    const NONE: usize = 1;
    /// The function's address. Threads that look for it at the same time find the same one.
    static FOUND: AtomicUsize = AtomicUsize::new(UNKNOWN);
    let mut found = FOUND.load(Relaxed);
    if found == UNKNOWN {
        // SAFETY: the call touches no memory of ours.
        let image = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
        // SAFETY: the kernel gives the address of its library, or 0.
        found = unsafe { find(image) }.unwrap_or(NONE);
        FOUND.store(found, Relaxed);
    }
    if found == NONE {
        // SAFETY: the call writes the time.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, ptr::from_mut(time)) == 0 };
    }
    // SAFETY: the kernel's function has this type, and is called with the convention of C.
    let function: ReadClock = unsafe { mem::transmute(ptr::with_exposed_provenance::<()>(found)) };
    // SAFETY: the call writes the time.
    unsafe { function(clock, time) == 0 }
}

/// Sleeps.
pub(crate) fn sleep(time: &timespec) {
    let (clock, flags, left) = (libc::CLOCK_REALTIME, 0 as c_int, ptr::null_mut::<timespec>());
    // SAFETY: the call reads the time, and writes nothing through a null pointer.
    unsafe { libc::syscall(libc::SYS_clock_nanosleep, clock, flags, ptr::from_ref(time), left) };
}

/// An entry of the table that says where a library's other tables are.
#[repr(C)]
struct Entry {
    tag: u64,
    value: u64,
}

/// Returns the address of the function [`NAME`] in the library at `image`.
///
/// # Safety
/// `image` is the address of a valid 64-bit library in memory, or 0.
unsafe fn find(image: c_ulong) -> Option<usize> {
    const STRINGS: u64 = 5;
    const SYMBOLS: u64 = 6;
    const HASH: u64 = 4;
    const GNU_HASH: u64 = 0x6fff_fef5;
    const END: u64 = 0;
    let image = ptr::with_exposed_provenance::<u8>(image as usize);
    if image.is_null() {
        return None;
    }
    // SAFETY: a valid library's headers and tables are where they say, and are aligned.
    unsafe {
        let header = &*image.cast::<Elf64_Ehdr>();
        let segments = image.add(header.e_phoff as usize).cast::<Elf64_Phdr>();
        let segment = |kind| {
            (0..header.e_phnum.into())
                .map(|index| &*segments.add(index))
                .find(|segment| segment.p_type == kind)
        };
        let load = segment(libc::PT_LOAD)?;
        // The tables give the addresses that the library was linked for.
        let at = |address: u64| {
            image.wrapping_add((address + load.p_offset).wrapping_sub(load.p_vaddr) as usize)
        };
        let entries = at(segment(libc::PT_DYNAMIC)?.p_vaddr).cast::<Entry>();
        let table = |tag| {
            (0..)
                .map(|index| &*entries.add(index))
                .take_while(|entry| entry.tag != END)
                .find(|entry| entry.tag == tag)
                .map(|entry| at(entry.value))
        };
        let symbols = table(SYMBOLS)?.cast::<Elf64_Sym>();
        let strings = table(STRINGS)?.cast::<c_char>();
        let count = match table(HASH) {
            // The second word is the number of chains: one for each symbol.
            Some(hash) => *hash.cast::<u32>().add(1),
            None => symbols_of_gnu_hash(table(GNU_HASH)?.cast()),
        };
        (0..count as usize)
            .map(|index| &*symbols.add(index))
            .filter(|symbol| symbol.st_shndx != 0)
            .find(|symbol| CStr::from_ptr(strings.add(symbol.st_name as usize)) == NAME)
            .map(|symbol| at(symbol.st_value).expose_provenance())
    }
}

/// Returns the number of symbols in the library, from a hash table in GNU's format. The table
/// starts with the first symbol that can be looked up; the ones before it are included.
///
/// # Safety
/// `table` is a valid table.
unsafe fn symbols_of_gnu_hash(table: *const c_uint) -> u32 {
    // SAFETY: a valid table has these parts: four words, a filter of 64-bit words, the first symbol
    // of each bucket, and a word for each symbol, which is odd for the last one of its bucket.
    unsafe {
        let (buckets, first, filter) = (*table, *table.add(1), *table.add(2));
        let bucket = table.add(4 + 2 * filter as usize);
        let words = bucket.add(buckets as usize);
        let last = (0..buckets as usize).map(|index| *bucket.add(index)).max().unwrap_or(0);
        if last < first {
            return first;
        }
        let is_last = |symbol: &u32| *words.add((symbol - first) as usize) & 1 == 1;
        1 + (last..).find(is_last).unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(clock: clockid_t) -> u128 {
        let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
        assert!(read_clock(clock, &mut time));
        time.tv_sec as u128 * 1_000_000_000 + time.tv_nsec as u128
    }

    fn expected(clock: clockid_t) -> u128 {
        let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes the time.
        assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0);
        time.tv_sec as u128 * 1_000_000_000 + time.tv_nsec as u128
    }

    #[test]
    fn the_clocks_are_those_of_the_c_library() {
        for clock in
            [libc::CLOCK_MONOTONIC, libc::CLOCK_MONOTONIC_COARSE, libc::CLOCK_THREAD_CPUTIME_ID]
        {
            let (before, time, after) = (expected(clock), read(clock), expected(clock));
            assert!(before <= time && time <= after, "clock {clock}: {before}, {time}, {after}");
        }
        let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
        assert!(!read_clock(1000, &mut time), "no such clock");
    }

    /// The kernels under which this runs map a library with the function.
    #[test]
    #[cfg(all(target_env = "gnu", target_arch = "x86_64"))]
    fn the_kernels_function_is_found() {
        // SAFETY: the call touches no memory of ours; the kernel gives the address of its library.
        let found = unsafe { find(libc::getauxval(libc::AT_SYSINFO_EHDR)) };
        assert!(found.is_some());
        // SAFETY: 0 is no library.
        assert_eq!(unsafe { find(0) }, None);
    }

    /// A table as linkers write it: two buckets, with the symbols 2 and 3, and 4.
    #[test]
    fn symbols_are_counted_by_gnus_table() {
        let count = |table: &[u32]| {
            // SAFETY: the tables are valid.
            unsafe { symbols_of_gnu_hash(table.as_ptr()) }
        };
        assert_eq!(count(&[2, 2, 1, 0, 9, 9, 2, 4, 10, 11, 13]), 5);
        assert_eq!(count(&[2, 2, 1, 0, 9, 9, 4, 2, 10, 12, 13]), 5);
        assert_eq!(count(&[1, 1, 1, 0, 0, 0, 0]), 1, "no symbol");
    }
}
