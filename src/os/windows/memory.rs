//! Memory: reserved, committed, given back.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_DECOMMIT, MEM_FREE, MEM_RELEASE, MEM_RESERVE, MEM_RESET,
    MEMORY_BASIC_INFORMATION, PAGE_GUARD, PAGE_NOACCESS, PAGE_READONLY, PAGE_READWRITE,
    VirtualAlloc, VirtualFree, VirtualProtect, VirtualQuery, VirtualUnlock,
};
use windows_sys::Win32::System::ProcessStatus::{
    K32QueryWorkingSetEx, PSAPI_WORKING_SET_EX_INFORMATION,
};
use windows_sys::Win32::System::SystemInformation::{
    GetSystemInfo, GlobalMemoryStatusEx, MEMORYSTATUSEX, SYSTEM_INFO,
};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

/// Size of an OS page in bytes, asked for once.
pub(crate) fn page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    match SIZE.load(Relaxed) {
        0 => {
            let mut system = SYSTEM_INFO::default();
            // SAFETY: the call writes what it is given.
            unsafe { GetSystemInfo(&raw mut system) };
            let size = (system.dwPageSize as usize).max(4096);
            SIZE.store(size, Relaxed);
            size
        }
        size => size,
    }
}

/// Reserves `len` bytes of address space, inaccessible until [committed](commit).
pub(crate) fn reserve(len: usize) -> Option<*mut u8> {
    // SAFETY: addresses of the system's choice are in nobody's use.
    let base = unsafe { VirtualAlloc(ptr::null(), len, MEM_RESERVE, PAGE_NOACCESS) };
    (!base.is_null()).then_some(base.cast())
}

/// Maps `len` bytes of fresh memory, zeros.
pub(crate) fn allocate(len: usize) -> Option<*mut u8> {
    // SAFETY: as for a reservation.
    let base = unsafe { VirtualAlloc(ptr::null(), len, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) };
    (!base.is_null()).then_some(base.cast())
}

/// As [`allocate`], of memory that is written at once.
pub(crate) fn allocate_populated(len: usize) -> Option<*mut u8> {
    allocate(len)
}

/// Makes the OS pages that cover these bytes accessible, be they of a [reservation](reserve), [guards](guard) or
/// [read-only](forbid_writes). Whether it could be done.
///
/// # Safety
/// The pages lie in a reservation, or are the caller's otherwise.
pub(crate) unsafe fn commit(start: *mut u8, len: usize) -> bool {
    let mut before = 0;
    // SAFETY: by the caller's promise the pages are ours; nothing is taken from them. The first call serves
    // whatever was reserved, the second what is a part of the program's file.
    unsafe {
        !VirtualAlloc(start.cast(), len, MEM_COMMIT, PAGE_READWRITE).is_null()
            || VirtualProtect(start.cast(), len, PAGE_READWRITE, &raw mut before) != 0
    }
}

/// Addresses come by 64 KiB, and go back as they came: no call may concern two reservations.
pub(crate) const NEEDS_RESERVATION: bool = true;

/// Reserves these addresses and no others, whole multiples of 64 KiB, inaccessible until they are [committed](commit).
/// Whether it could be done.
pub(crate) fn reserve_at(start: *mut u8, len: usize) -> bool {
    // SAFETY: where something lies already the system refuses.
    let base = unsafe { VirtualAlloc(start.cast(), len, MEM_RESERVE, PAGE_NOACCESS) };
    base == start.cast()
}

/// As [`commit`].
///
/// # Safety
/// As there.
pub(crate) unsafe fn map_at(start: *mut u8, len: usize) -> bool {
    // SAFETY: passed on.
    unsafe { commit(start, len) }
}

/// Whether nothing is reserved at these addresses.
pub(crate) fn is_free(start: *mut u8, len: usize) -> bool {
    query(start).is_some_and(|region| {
        let from = start.addr() - region.BaseAddress.addr();
        region.State == MEM_FREE && region.RegionSize - from >= len
    })
}

/// Bytes of all addresses that a process may use, a power of two. `None` where there are too few of them for a window.
pub(crate) fn addresses() -> Option<usize> {
    let mut system = SYSTEM_INFO::default();
    // SAFETY: the call writes what it is given.
    unsafe { GetSystemInfo(&raw mut system) };
    let last = system.lpMaximumApplicationAddress.addr();
    let all = 1_usize.checked_shl(usize::BITS - last.leading_zeros())?;
    (usize::BITS == 64 && all >> 19 >> 19 > 0).then_some(all)
}

/// Gives up whole OS pages; their addresses, too, once nothing is accessible of what was reserved with them.
/// Whether it could be done.
///
/// # Safety
/// The pages were mapped here and are not used any more; what else was reserved with them is accessible, or of no
/// use any more.
pub(crate) unsafe fn release(start: *mut u8, len: usize) -> bool {
    if len == 0 {
        return true;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let Some(known) = query(start) else { return false };
        let base = known.AllocationBase;
        if VirtualFree(start.cast(), len, MEM_DECOMMIT) == 0 {
            return false;
        }
        if !has_memory(base) {
            VirtualFree(base, 0, MEM_RELEASE);
        }
        true
    }
}

/// Whether any page is accessible of what was reserved at an address.
fn has_memory(base: *mut c_void) -> bool {
    let mut at = base.cast::<u8>();
    while let Some(region) = query(at).filter(|region| region.AllocationBase == base) {
        if region.State == MEM_COMMIT {
            return true;
        }
        at = at.wrapping_add(region.RegionSize);
    }
    false
}

/// What the system knows of the page at an address, and those after it that are alike.
fn query(address: *mut u8) -> Option<MEMORY_BASIC_INFORMATION> {
    let mut region = MEMORY_BASIC_INFORMATION::default();
    // SAFETY: the call writes no more than this, whatever the address.
    let written = unsafe { VirtualQuery(address.cast(), &raw mut region, size_of_val(&region)) };
    (written > 0).then_some(region)
}

/// Nothing becomes longer in place, nor moves.
///
/// # Safety
/// The mapping is one of [`allocate`], `len` bytes long, and known by nobody else if it moves.
pub(crate) unsafe fn remap(_: *mut u8, _: usize, _: usize, _: bool) -> Option<*mut u8> {
    None
}

/// Gives the memory of whole OS pages back, whose addresses stay taken, and inaccessible. Whether it could be
/// done.
///
/// # Safety
/// The pages were mapped here and are not used any more.
pub(crate) unsafe fn close(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller's promise. No length stands for all of a reservation.
    len == 0 || unsafe { VirtualFree(start.cast(), len, MEM_DECOMMIT) != 0 }
}

/// Makes whole OS pages inaccessible: who touches them is stopped. Where the system refuses, they stay as they are.
///
/// # Safety
/// The pages were mapped here, and nobody is to use them.
pub(crate) unsafe fn guard(start: *mut u8, len: usize) {
    // SAFETY: passed on.
    unsafe { protect(start, len, PAGE_NOACCESS) };
}

/// Makes whole OS pages read-only: who writes there is stopped. Whether it could be done.
///
/// # Safety
/// The pages are the caller's, and nobody writes there until they are [accessible](commit) again.
pub(crate) unsafe fn forbid_writes(start: *mut u8, len: usize) -> bool {
    // SAFETY: passed on.
    unsafe { protect(start, len, PAGE_READONLY) }
}

/// # Safety
/// The pages are the caller's, who knows of this.
unsafe fn protect(start: *mut u8, len: usize, protection: u32) -> bool {
    let mut before = 0;
    // SAFETY: the caller's promise; the call writes what the protection was.
    unsafe { VirtualProtect(start.cast(), len, protection, &raw mut before) != 0 }
}

/// Memory [given back](discard) may hold what it held until it is wanted elsewhere.
pub(crate) const DISCARDED_ARE_ZEROS: bool = false;

/// Gives the memory of whole OS pages back, which stay accessible, and hold anything. Whether it could be done.
///
/// (To decommit and commit them would make them zeros; but where the second is refused, there would be no memory
/// where the program has been promised some.)
///
/// # Safety
/// Nothing in the pages is used any more.
pub(crate) unsafe fn discard(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller's promise. To unlock pages that are not locked fails, and takes them out of the working set.
    unsafe {
        let done = !VirtualAlloc(start.cast(), len, MEM_RESET, PAGE_READWRITE).is_null();
        if done {
            VirtualUnlock(start.cast(), len);
        }
        done
    }
}

/// The system has large pages only for whom the administrator allows them; nothing is told of them.
///
/// # Safety
/// The pages were mapped here.
pub(crate) unsafe fn advise_huge_pages(_: *mut u8, _: usize, _: bool) {}

/// See `advise_huge_pages`.
pub(crate) const ADVISES_HUGE_PAGES: bool = false;

/// There are none but for who asks for them.
pub(crate) fn backs_all_with_huge_pages() -> bool {
    false
}

/// OS pages asked about at one time.
const RESIDENT_WINDOW: usize = 256;

/// Calls `visit` for the runs of OS pages between two page boundaries that take memory; for all of them
/// where the system does not tell.
pub(crate) fn for_each_resident(start: *mut u8, len: usize, visit: &mut dyn FnMut(*mut u8, usize)) {
    let page = page_size();
    let mut pages = [PSAPI_WORKING_SET_EX_INFORMATION::default(); RESIDENT_WINDOW];
    let (mut run_start, mut run) = (start, 0);
    for from in (0..len).step_by(RESIDENT_WINDOW * page) {
        let count = ((len - from) / page).min(RESIDENT_WINDOW);
        for (index, asked) in pages[..count].iter_mut().enumerate() {
            asked.VirtualAddress = start.wrapping_add(from + index * page).cast();
        }
        let known = ask_for_residence(&mut pages[..count]);
        for asked in &pages[..count] {
            if !known || is_valid(asked) {
                if run == 0 {
                    run_start = asked.VirtualAddress.cast();
                }
                run += page;
            } else if run > 0 {
                visit(run_start, core::mem::take(&mut run));
            }
        }
    }
    if run > 0 {
        visit(run_start, run);
    }
}

/// Whether the OS page at an address is known to take memory.
pub(crate) fn is_resident(address: *mut u8) -> bool {
    let mut page = [PSAPI_WORKING_SET_EX_INFORMATION::default()];
    page[0].VirtualAddress = address.cast();
    ask_for_residence(&mut page) && is_valid(&page[0])
}

/// Has the system write what it knows of pages. Whether it did.
fn ask_for_residence(pages: &mut [PSAPI_WORKING_SET_EX_INFORMATION]) -> bool {
    // SAFETY: the call writes no more than these.
    unsafe {
        let bytes = size_of_val(pages) as u32;
        K32QueryWorkingSetEx(GetCurrentProcess(), pages.as_mut_ptr().cast(), bytes) != 0
    }
}

/// Whether a page is in the working set.
fn is_valid(page: &PSAPI_WORKING_SET_EX_INFORMATION) -> bool {
    // SAFETY: all bits are a value of each of the union's types.
    unsafe { page.VirtualAttributes.Flags & 1 == 1 }
}

/// Whether the word at an address may be readable, be it of this allocator or not.
pub(crate) fn is_readable(address: *mut u8) -> bool {
    query(address).is_some_and(|region| {
        region.State == MEM_COMMIT && region.Protect & (PAGE_NOACCESS | PAGE_GUARD) == 0
    })
}

/// What this process may reserve, bytes: eight times the machine's memory. (What is reserved costs nothing on
/// Windows; other systems that run its programs keep a byte for each page.)
pub(crate) fn address_space_limit() -> usize {
    let mut memory =
        MEMORYSTATUSEX { dwLength: size_of::<MEMORYSTATUSEX>() as u32, ..Default::default() };
    // SAFETY: the call writes what it is given.
    let known = unsafe { GlobalMemoryStatusEx(&raw mut memory) != 0 };
    let bytes = if known { memory.ullTotalPhys.saturating_mul(8) } else { 1 << 32 };
    usize::try_from(bytes.min(memory.ullTotalVirtual)).unwrap_or(usize::MAX)
}
