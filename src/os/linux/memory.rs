//! Linux's own calls for memory: at an address and no other, moved, given back, looked at.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use crate::os::{Run, page_size};

/// Maps whole OS pages of fresh memory, zeros, at this address and no other. Whether it could be done:
/// not where there is memory already.
///
/// # Safety
/// Whoever uses the pages knows of this.
pub(crate) unsafe fn map_at(start: *mut u8, len: usize) -> bool {
    map_exactly(start, len, libc::PROT_READ | libc::PROT_WRITE).is_ok()
}

/// Memory comes to any address that is free.
pub(crate) const NEEDS_RESERVATION: bool = false;

/// Reserves these addresses and no others, inaccessible until they are [committed](crate::os::commit). Whether it could
/// be done.
pub(crate) fn reserve_at(start: *mut u8, len: usize) -> bool {
    map_exactly(start, len, libc::PROT_NONE).is_ok()
}

/// Whether nothing is mapped at these addresses. Where a limit is in the way, the first page speaks for
/// all.
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

/// Maps pages at this address; what the system answers if it does not.
fn map_exactly(start: *mut u8, len: usize, protection: c_int) -> Result<(), c_int> {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: the call takes no memory that is in use.
    let mapped = unsafe { libc::mmap(start.cast(), len, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        // SAFETY: the location is the calling thread's own and always valid.
        return Err(unsafe { *libc::__errno_location() });
    }
    if mapped != start.cast() {
        // A kernel before Linux 4.17 takes the address for a wish.
        // SAFETY: these pages were mapped just now.
        unsafe { libc::munmap(mapped, len) };
        return Err(libc::EEXIST);
    }
    Ok(())
}

/// Bytes of all addresses that a process may use, as far as those of its own memory show: a power of
/// two. `None` where there are too few of them for a window.
pub(crate) fn addresses() -> Option<usize> {
    let here = 0_u8;
    // A stack lies at the upper end.
    let all = 1_usize.checked_shl(usize::BITS - (&raw const here).addr().leading_zeros())?;
    (usize::BITS == 64 && all >> 19 >> 19 > 0).then_some(all)
}

/// Makes a mapping longer or shorter, moving it where it must.
///
/// # Safety
/// The mapping is one of [`allocate`], `len` bytes long, and known by nobody else if it moves.
pub(crate) unsafe fn remap(
    start: *mut u8,
    len: usize,
    new_len: usize,
    may_move: bool,
) -> Option<*mut u8> {
    let flags = if may_move { libc::MREMAP_MAYMOVE } else { 0 };
    // SAFETY: the caller's promise.
    let moved = unsafe { libc::mremap(start.cast(), len, new_len, flags) };
    (moved != libc::MAP_FAILED).then_some(moved.cast())
}

/// Memory [given back](discard) reads as zeros.
pub(crate) const DISCARDED_ARE_ZEROS: bool = true;

/// As `MADV_DONTNEED`, of locked memory too, which stays locked: what is touched again is.
const MADV_DONTNEED_LOCKED: c_int = 24;

/// Gives the memory of whole OS pages back; they read as zeros when touched again. Whether it could be
/// done: before Linux 5.18 the memory of a program that called `mlockall` stays.
///
/// # Safety
/// Nothing in the pages is used any more.
pub(crate) unsafe fn discard(start: *mut u8, len: usize) -> bool {
    let advice = [libc::MADV_DONTNEED, MADV_DONTNEED_LOCKED];
    // SAFETY: the caller's promise.
    advice.into_iter().any(|advice| unsafe { libc::madvise(start.cast(), len, advice) == 0 })
}

/// Whether the kernel refused to give back several runs by one call: it is older than Linux 6.15, or a sandbox is in the way.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Whether [`discard_all`] gives back several runs, as far as is known.
pub(crate) fn discards_many() -> bool {
    !REFUSED.load(Relaxed)
}

/// [Gives back](discard) the memory of several runs of OS pages by one call, for which the kernel interrupts the other CPUs
/// once (from Linux 6.16 on) and not once for each run. Returns how many of them, from the first, went back; of the next, some
/// OS pages may have.
///
/// # Safety
/// Nothing in the pages is used any more.
pub(crate) unsafe fn discard_all(runs: &[Run]) -> usize {
    /// The calling process, also in the child of a fork, without a file. No descriptor is negative, so before Linux 6.15 the
    /// answer is EBADF.
    const PIDFD_SELF: c_int = -10_000;
    if !discards_many() {
        return 0;
    }
    let (first, len) = (runs.as_ptr(), runs.len());
    // SAFETY: the kernel reads `len` runs, laid out as its own; the caller's promise.
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
        // SAFETY: the location is the calling thread's own and always valid.
        let error = unsafe { *libc::__errno_location() };
        // These are of the first run, or of this moment.
        if ![libc::EINVAL, libc::EAGAIN, libc::ENOMEM, libc::EINTR].contains(&error) {
            REFUSED.store(true, Relaxed);
        }
        return 0;
    };
    let is_gone = |run: &&Run| {
        let is_gone = left >= run.len;
        left = left.saturating_sub(run.len);
        is_gone
    };
    runs.iter().take_while(is_gone).count()
}

/// Tells the kernel whether to use huge pages here.
///
/// # Safety
/// The pages were mapped here.
pub(crate) unsafe fn advise_huge_pages(start: *mut u8, len: usize, wanted: bool) {
    let advice = if wanted { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
    // SAFETY: the advice changes no contents.
    unsafe { libc::madvise(start.cast(), len, advice) };
}

/// The kernel takes advice on huge pages.
pub(crate) const ADVISES_HUGE_PAGES: bool = true;

/// Whether the word at an address may be readable, be it of this allocator or not. Neither of two calls
/// may answer ENOMEM, as they do where nothing is mapped, nor a third EFAULT, which it does where reading is
/// not allowed. Any other error is that of a sandbox or of an emulator, and tells nothing.
pub(crate) fn is_readable(address: *mut u8) -> bool {
    let page = page_size();
    let mut state = 0u8;
    let start = address.with_addr(address.addr() & !(page - 1)).cast();
    // SAFETY: there is a state for the one page asked about; the second call changes nothing. The third reads
    // a set of signals, before it finds that it is not told what to do with them.
    unsafe {
        let fails = |failed, error| failed && *libc::__errno_location() == error;
        let absent = fails(libc::mincore(start, page, (&raw mut state).cast()) != 0, libc::ENOMEM)
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

    /// Where the kernel refuses a run, here since no OS page begins there, those before it go back and no others, and it is
    /// asked again.
    #[test]
    fn runs_before_one_that_is_refused_go_back() {
        const RUNS: usize = 5;
        let page = page_size();
        // Whether the kernel does it at all: first, none of them is refused.
        let mut is_done = None;
        for refused in (0..=RUNS).rev() {
            let start = allocate(2 * RUNS * page).expect("there is memory");
            let run = |index: usize| start.wrapping_add(2 * index * page);
            let mut runs: [Run; RUNS] =
                core::array::from_fn(|index| Run { start: run(index), len: page });
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
