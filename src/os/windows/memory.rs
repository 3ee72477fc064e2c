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

/// Returns the size of an OS page in bytes; asks the system once.
pub(crate) fn page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    match SIZE.load(Relaxed) {
        0 => {
            let mut system = SYSTEM_INFO::default();
            // SAFETY: the call writes the structure that it is given.
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
    // SAFETY: addresses of the system's choice are not in use.
    let base = unsafe { VirtualAlloc(ptr::null(), len, MEM_RESERVE, PAGE_NOACCESS) };
    (!base.is_null()).then_some(base.cast())
}

/// Maps `len` bytes of zeros.
pub(crate) fn allocate(len: usize) -> Option<*mut u8> {
    // SAFETY: as for a reservation.
    let base = unsafe { VirtualAlloc(ptr::null(), len, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) };
    (!base.is_null()).then_some(base.cast())
}

/// Makes the OS pages that cover these bytes accessible, whether they are [reserved](reserve),
/// [guarded](guard) or [read-only](forbid_writes). Returns whether it did.
///
/// # Safety
/// The pages are in a reservation, or are otherwise the caller's.
pub(crate) unsafe fn commit(start: *mut u8, len: usize) -> bool {
    let mut before = 0;
    // SAFETY: the caller guarantees that the pages are ours; they lose no contents. The first call
    // works for reserved pages, the second for pages of the program's file.
    unsafe {
        !VirtualAlloc(start.cast(), len, MEM_COMMIT, PAGE_READWRITE).is_null()
            || VirtualProtect(start.cast(), len, PAGE_READWRITE, &raw mut before) != 0
    }
}

/// Whether [`map_at`] works only inside reservations: it does. Reservations are multiples of 64 KiB
/// and go back as a whole; no call may cover parts of two.
pub(crate) const NEEDS_RESERVATION: bool = true;

/// Reserves exactly these addresses, whole multiples of 64 KiB, inaccessible until they are
/// [committed](commit). Returns whether it did.
pub(crate) fn reserve_at(start: *mut u8, len: usize) -> bool {
    // SAFETY: the system refuses addresses that are in use.
    let base = unsafe { VirtualAlloc(start.cast(), len, MEM_RESERVE, PAGE_NOACCESS) };
    base == start.cast()
}

/// Commits pages, as [`commit`] does.
///
/// # Safety
/// As for [`commit`].
pub(crate) unsafe fn map_at(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller guarantees what `commit` requires.
    unsafe { commit(start, len) }
}

/// Returns whether nothing is reserved at these addresses.
pub(crate) fn is_free(start: *mut u8, len: usize) -> bool {
    query(start).is_some_and(|region| {
        let from = start.addr() - region.BaseAddress.addr();
        region.State == MEM_FREE && region.RegionSize - from >= len
    })
}

/// Returns the size in bytes of the address space that a process may use, a power of two; `None` if
/// it is too small for a window.
pub(crate) fn addresses() -> Option<usize> {
    let mut system = SYSTEM_INFO::default();
    // SAFETY: the call writes the structure that it is given.
    unsafe { GetSystemInfo(&raw mut system) };
    let last = system.lpMaximumApplicationAddress.addr();
    let all = 1_usize.checked_shl(usize::BITS - last.leading_zeros())?;
    (usize::BITS == 64 && all >> 19 >> 19 > 0).then_some(all)
}

/// Decommits whole OS pages, and releases their reservation once none of its pages is accessible.
/// Returns whether it did.
///
/// # Safety
/// The pages were mapped here and are no longer used. The rest of their reservation is accessible,
/// or no longer used either.
pub(crate) unsafe fn release(start: *mut u8, len: usize) -> bool {
    if len == 0 {
        return true;
    }
    // SAFETY: the caller guarantees that the pages are unused, and so is a reservation without
    // accessible pages.
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

/// Returns whether any page of the reservation that starts at `base` is accessible.
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

/// Returns what the system reports of the page at `address` and of the similar pages that follow
/// it.
fn query(address: *mut u8) -> Option<MEMORY_BASIC_INFORMATION> {
    let mut region = MEMORY_BASIC_INFORMATION::default();
    // SAFETY: the call accepts any address and writes at most this structure.
    let written = unsafe { VirtualQuery(address.cast(), &raw mut region, size_of_val(&region)) };
    (written > 0).then_some(region)
}

/// Never resizes: the system neither grows a mapping in place nor moves it.
///
/// # Safety
/// The mapping came from [`allocate`] and is `len` bytes long; if it moves, only the caller knows
/// of it.
pub(crate) unsafe fn remap(_: *mut u8, _: usize, _: usize, _: bool) -> Option<*mut u8> {
    None
}

/// Gives back the memory of whole OS pages. Their addresses stay reserved and inaccessible. Returns
/// whether it did.
///
/// # Safety
/// The pages were mapped here and are no longer used.
pub(crate) unsafe fn close(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller guarantees that the pages are ours and unused. (A length of 0 would mean
    // the whole reservation.)
    len == 0 || unsafe { VirtualFree(start.cast(), len, MEM_DECOMMIT) != 0 }
}

/// Makes whole OS pages inaccessible: touching them raises an exception. If the system refuses,
/// nothing changes.
///
/// # Safety
/// The pages were mapped here, and no code may use them.
pub(crate) unsafe fn guard(start: *mut u8, len: usize) {
    // SAFETY: the caller guarantees that the pages are ours and must not be used.
    unsafe { protect(start, len, PAGE_NOACCESS) };
}

/// Makes whole OS pages read-only: writing to them raises an exception. Returns whether it did.
///
/// # Safety
/// The pages are the caller's, and are not written until they are [accessible](commit) again.
pub(crate) unsafe fn forbid_writes(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller guarantees that the pages are its own and are not written.
    unsafe { protect(start, len, PAGE_READONLY) }
}

/// Sets the protection of whole OS pages. Returns whether it did.
///
/// # Safety
/// The pages are the caller's, and it uses them only as `protection` allows.
unsafe fn protect(start: *mut u8, len: usize, protection: u32) -> bool {
    let mut before = 0;
    // SAFETY: the caller guarantees that the pages are its own; the call writes the previous
    // protection.
    unsafe { VirtualProtect(start.cast(), len, protection, &raw mut before) != 0 }
}

/// Whether [discarded](discard) pages read as zeros: they may keep their old contents until the
/// system needs the memory.
pub(crate) const DISCARDED_ARE_ZEROS: bool = false;

/// Gives back the memory of whole OS pages, which stay accessible with arbitrary contents. Returns
/// whether it did.
///
/// Decommitting and committing the pages would zero them. But if the system refuses the commit, the
/// program would lose memory that it was promised.
///
/// # Safety
/// The contents of the pages are no longer used.
pub(crate) unsafe fn discard(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller guarantees that the contents are unused. Unlocking pages that are not
    // locked fails, but takes them out of the working set.
    unsafe {
        let done = !VirtualAlloc(start.cast(), len, MEM_RESET, PAGE_READWRITE).is_null();
        if done {
            VirtualUnlock(start.cast(), len);
        }
        done
    }
}

/// Does nothing: large pages need a privilege that the administrator grants, and Windows takes no
/// advice on them.
///
/// # Safety
/// The pages were mapped here.
pub(crate) unsafe fn advise_huge_pages(_: *mut u8, _: usize, _: bool) {}

/// See `advise_huge_pages`.
pub(crate) const ADVISES_HUGE_PAGES: bool = false;

/// Returns false: only programs that ask for large pages get them.
pub(crate) fn backs_all_with_huge_pages() -> bool {
    false
}

/// Number of OS pages per `K32QueryWorkingSetEx` call.
const RESIDENT_WINDOW: usize = 256;

/// Calls `visit` for each run of resident OS pages in `len` bytes from `start`, both multiples of
/// the page size. Takes all pages as resident if the system does not tell.
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

/// Returns whether the OS page at `address` is known to be resident.
pub(crate) fn is_resident(address: *mut u8) -> bool {
    let mut page = [PSAPI_WORKING_SET_EX_INFORMATION::default()];
    page[0].VirtualAddress = address.cast();
    ask_for_residence(&mut page) && is_valid(&page[0])
}

/// Has the system write the state of `pages`. Returns whether it did.
fn ask_for_residence(pages: &mut [PSAPI_WORKING_SET_EX_INFORMATION]) -> bool {
    // SAFETY: the call writes at most the size of `pages`.
    unsafe {
        let bytes = size_of_val(pages) as u32;
        K32QueryWorkingSetEx(GetCurrentProcess(), pages.as_mut_ptr().cast(), bytes) != 0
    }
}

/// Returns whether a page is in the working set.
fn is_valid(page: &PSAPI_WORKING_SET_EX_INFORMATION) -> bool {
    // SAFETY: every bit pattern is valid for each type in the union.
    unsafe { page.VirtualAttributes.Flags & 1 == 1 }
}

/// Returns whether the word at `address` may be readable, whether or not it is this allocator's.
pub(crate) fn is_readable(address: *mut u8) -> bool {
    query(address).is_some_and(|region| {
        region.State == MEM_COMMIT && region.Protect & (PAGE_NOACCESS | PAGE_GUARD) == 0
    })
}

/// Returns how many bytes this process may reserve: eight times the machine's memory. (Reservations
/// cost nothing on Windows, but other systems that run Windows programs keep a byte per page.)
pub(crate) fn address_space_limit() -> usize {
    let mut memory =
        MEMORYSTATUSEX { dwLength: size_of::<MEMORYSTATUSEX>() as u32, ..Default::default() };
    // SAFETY: the call writes the structure that it is given.
    let known = unsafe { GlobalMemoryStatusEx(&raw mut memory) != 0 };
    let bytes = if known { memory.ullTotalPhys.saturating_mul(8) } else { 1 << 32 };
    usize::try_from(bytes.min(memory.ullTotalVirtual)).unwrap_or(usize::MAX)
}
