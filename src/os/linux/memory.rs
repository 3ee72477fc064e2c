//! Linux's own calls for memory: mapping at exact addresses, resizing, giving back, probing.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use crate::os::{OsPageRun, Uncancelled, errno, is_sandboxed, page_size};

/// Maps whole OS pages of zeros at exactly `start`. Returns whether it did; fails if anything is
/// mapped there already.
///
/// # Safety
/// Nothing relies on these addresses being unmapped.
pub(crate) unsafe fn map_at(start: *mut u8, len: usize) -> bool {
    map_exactly(start, len, libc::PROT_READ | libc::PROT_WRITE).is_ok()
}

/// Whether [`map_at`] works only inside reservations: it works at any free address.
pub(crate) const NEEDS_RESERVATION: bool = false;

/// Reserves exactly these addresses, inaccessible until they are [committed](crate::os::commit).
/// Returns whether it did.
pub(crate) fn reserve_at(start: *mut u8, len: usize) -> bool {
    map_exactly(start, len, libc::PROT_NONE).is_ok()
}

/// Returns whether nothing is mapped at these addresses. If a limit prevents the test, only the
/// first page is tested.
pub(crate) fn is_free(start: *mut u8, len: usize) -> bool {
    let try_to_map = |len| {
        // SAFETY: these pages were mapped just now.
        map_exactly(start, len, libc::PROT_NONE).map(|()| unsafe {
            libc::munmap(start.cast(), len);
        })
    };
    match try_to_map(len) {
        Err(libc::ENOMEM) => try_to_map(page_size()).is_ok(),
        answer => answer.is_ok(),
    }
}

/// Maps pages at exactly `start`, or returns the system's error number.
fn map_exactly(start: *mut u8, len: usize, protection: c_int) -> Result<(), c_int> {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: the call replaces no mapping that exists.
    let mapped = unsafe { libc::mmap(start.cast(), len, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(errno());
    }
    if mapped != start.cast() {
        // Kernels before Linux 4.17 take the address as a hint.
        // SAFETY: these pages were mapped just now.
        unsafe { libc::munmap(mapped, len) };
        return Err(libc::EEXIST);
    }
    Ok(())
}

/// Returns the size in bytes of the address space that a process may use, a power of two, guessed
/// from the address of the stack. Returns `None` if it is too small for a window.
pub(crate) fn addresses() -> Option<usize> {
    let here = 0_u8;
    // A stack is near the upper end of the address space.
    let all = 1_usize.checked_shl(usize::BITS - (&raw const here).addr().leading_zeros())?;
    (usize::BITS == 64 && all >> 19 >> 19 > 0).then_some(all)
}

/// Resizes a mapping, moving it if needed and `may_move` allows it. One that is several to the
/// kernel can only grow in place.
///
/// # Safety
/// The mapping came from [`allocate`](crate::os::allocate) and is `len` bytes long; if it moves,
/// only the caller knows of it.
pub(crate) unsafe fn remap(
    start: *mut u8,
    len: usize,
    new_len: usize,
    may_move: bool,
) -> Option<*mut u8> {
    // A mapping that stays where it is grows by its last page, so it may be several to the kernel.
    let unchanged = if may_move || new_len < len { 0 } else { len - page_size() };
    let flags = if may_move { libc::MREMAP_MAYMOVE } else { 0 };
    // SAFETY: the caller guarantees that the mapping is whole and may move.
    let moved = unsafe {
        let end = start.add(unchanged);
        libc::mremap(end.cast(), len - unchanged, new_len - unchanged, flags)
    };
    (moved != libc::MAP_FAILED).then(|| moved.cast::<u8>().wrapping_sub(unchanged))
}

/// Whether [discarded](discard) pages read as zeros: they do.
pub(crate) const DISCARDED_ARE_ZEROS: bool = true;

/// Like `MADV_DONTNEED`, but also works on locked memory. The pages stay locked: once touched
/// again, they are locked again.
const MADV_DONTNEED_LOCKED: c_int = 24;

/// Gives back the memory of whole OS pages, which read as zeros when touched again. Returns whether
/// it did: before Linux 5.18 the memory of a program that called `mlockall` cannot be given back.
///
/// # Safety
/// The contents of the pages are no longer used.
pub(crate) unsafe fn discard(start: *mut u8, len: usize) -> bool {
    let advice = [libc::MADV_DONTNEED, MADV_DONTNEED_LOCKED];
    // SAFETY: the caller guarantees that the contents are unused.
    advice.into_iter().any(|advice| unsafe { libc::madvise(start.cast(), len, advice) == 0 })
}

/// Whether the kernel has refused to give back several runs by one call: it is older than Linux
/// 6.15, or a sandbox forbids it.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Returns whether [`discard_all`] may work: true until the kernel has refused it, or could kill
/// the process for it.
pub(crate) fn discards_many() -> bool {
    !REFUSED.load(Relaxed) && !is_sandboxed()
}

/// [Gives back](discard) the memory of several runs of OS pages by one call, for which the kernel
/// (from Linux 6.16 on) interrupts the other CPUs once and not once per run. Returns how many runs,
/// counted from the first, went back; a part of the next run may have gone back as well.
///
/// # Safety
/// The contents of the pages are no longer used.
pub(crate) unsafe fn discard_all(runs: &[OsPageRun]) -> usize {
    /// Stands for the calling process, also in the child of a fork, without a descriptor. Kernels
    /// before Linux 6.15 answer EBADF, as descriptors are never negative.
    const PIDFD_SELF: c_int = -10_000;
    if !discards_many() {
        return 0;
    }
    let (first, len) = (runs.as_ptr(), runs.len());
    // SAFETY: the kernel reads `len` runs, which have its own layout; the caller guarantees that
    // their contents are unused.
    let bytes = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            PIDFD_SELF,
            first,
            len,
            MADV_DONTNEED_LOCKED,
            0_u32,
        )
    };
    let Ok(mut left) = usize::try_from(bytes) else {
        let error = errno();
        // These errors concern the first run or are temporary; any other means that the kernel
        // refuses the call.
        if ![libc::EINVAL, libc::EAGAIN, libc::ENOMEM, libc::EINTR].contains(&error) {
            REFUSED.store(true, Relaxed);
        }
        return 0;
    };
    let is_gone = |run: &&OsPageRun| {
        let is_gone = left >= run.len;
        left = left.saturating_sub(run.len);
        is_gone
    };
    runs.iter().take_while(is_gone).count()
}

/// Undoes what a program may have set on the pages of its block that must not stay while they are
/// kept: that a fork leaves them out of the child, which would keep addresses where nothing is.
/// Returns `false` if some are, or may be, locked in memory: these should go back to the system, as
/// the program may lock only so much.
///
/// # Safety
/// The pages were mapped here, and nobody uses them.
pub(crate) unsafe fn may_keep(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller guarantees that the pages are ours; neither call changes their contents.
    !is_sandboxed()
        && unsafe {
            libc::madvise(start.cast(), len, libc::MADV_DOFORK);
            !is_locked(start, len)
        }
}

/// Returns whether some of these pages are locked in memory.
///
/// # Safety
/// The pages were mapped here.
unsafe fn is_locked(start: *mut u8, len: usize) -> bool {
    // SAFETY: `msync` writes nothing, as it is not told to; called this way, it is no cancellation
    // point.
    let failed = unsafe { libc::syscall(libc::SYS_msync, start, len, libc::MS_INVALIDATE) } != 0;
    failed && errno() == libc::EBUSY
}

/// Undoes what a program may have set on the pages of its block: how they may be accessed, and
/// whether a fork leaves them out of the child or clears them there. Returns `false` if the pages
/// should go back to the system: not all of them are there, accessible, and this process's own (the
/// program may have mapped a file or shared memory over them), or some are locked in memory.
///
/// # Safety
/// The pages were mapped here, and nobody uses them.
pub(crate) unsafe fn restore(start: *mut u8, len: usize) -> bool {
    if is_sandboxed() {
        return false;
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the caller guarantees that the pages are ours. If the kernel lacks an advice, or a
    // sandbox refuses it, the program could not give the opposite one either.
    unsafe {
        let advise = |len, advice| libc::madvise(start.cast(), len, advice) == 0;
        // Only private memory without a file takes this advice. Of no pages, every kernel takes the
        // advice that it knows.
        let is_own = advise(len, libc::MADV_WIPEONFORK) || !advise(0, libc::MADV_WIPEONFORK);
        advise(len, libc::MADV_DOFORK);
        advise(len, libc::MADV_KEEPONFORK);
        // Unlocking them is no remedy: the program may have locked all of its memory.
        is_own && !is_locked(start, len) && libc::mprotect(start.cast(), len, protection) == 0
    }
}

/// Advises the kernel to use huge pages here, or not to.
///
/// # Safety
/// The pages were mapped here.
pub(crate) unsafe fn advise_huge_pages(start: *mut u8, len: usize, wanted: bool) {
    if is_sandboxed() {
        return;
    }
    let advice = if wanted { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
    // SAFETY: the advice changes no contents.
    unsafe { libc::madvise(start.cast(), len, advice) };
}

/// Whether the kernel takes advice on huge pages.
pub(crate) const ADVISES_HUGE_PAGES: bool = true;

/// Returns whether the word at `address` may be readable, whether or not it is this allocator's. It
/// is not if `mincore` and `msync` both answer ENOMEM (nothing is mapped), or if `rt_sigprocmask`
/// answers EFAULT (reading is not allowed). Any other error comes from a sandbox or an emulator and
/// means nothing.
pub(crate) fn is_readable(address: *mut u8) -> bool {
    let _uncancelled = Uncancelled::new();
    let page = page_size();
    let mut state = 0u8;
    let start = address.with_addr(address.addr() & !(page - 1)).cast();
    // SAFETY: `mincore` writes the state of one page; `msync` changes nothing. `rt_sigprocmask`
    // reads a set of signals before it finds its first argument invalid, and changes nothing.
    unsafe {
        let fails = |failed, error| failed && errno() == error;
        let absent = !is_sandboxed()
            && fails(libc::mincore(start, page, (&raw mut state).cast()) != 0, libc::ENOMEM)
            && fails(libc::msync(start, page, libc::MS_ASYNC) != 0, libc::ENOMEM);
        let set = address.with_addr(address.addr() & !7);
        let none = ptr::null_mut::<u8>();
        let call = libc::SYS_rt_sigprocmask;
        !absent && !fails(libc::syscall(call, -1_isize, set, none, 8_usize) != 0, libc::EFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::{allocate, is_resident, release};

    /// If the kernel refuses a run (here one that does not start at an OS page), exactly the runs
    /// before it go back, and later calls ask the kernel again.
    #[test]
    fn runs_before_one_that_is_refused_go_back() {
        const RUNS: usize = 5;
        let page = page_size();
        // Whether the kernel supports the call: the first round, which refuses no run, tells.
        let mut is_done = None;
        for refused in (0..=RUNS).rev() {
            let start = allocate(2 * RUNS * page).expect("there is memory");
            let run = |index: usize| start.wrapping_add(2 * index * page);
            let mut runs: [OsPageRun; RUNS] =
                core::array::from_fn(|index| OsPageRun { start: run(index), len: page });
            if let Some(run) = runs.get_mut(refused) {
                run.start = run.start.wrapping_add(1);
            }
            // SAFETY: all of it is the test's own.
            unsafe {
                start.write_bytes(1, 2 * RUNS * page);
                let gone = discard_all(&runs);
                for index in 0..RUNS {
                    assert_eq!(is_resident(run(index)), index >= gone, "run {index} of {refused}");
                    assert_eq!(run(index).read(), u8::from(index >= gone));
                    assert_eq!(run(index).add(page).read(), 1, "what is not asked for stays");
                }
                let is_done = *is_done.get_or_insert(gone == RUNS);
                assert_eq!(gone, if is_done { refused } else { 0 });
                assert_eq!(discards_many(), is_done, "it is asked again");
                release(start, 2 * RUNS * page);
            }
        }
    }
}
