//! Real page faults: a heap in a file-backed mapping with a limited number of resident pages (Brent
//! §7.3).
//!
//! The kernel faults pages in, and we evict them: pages mapped beyond the working set are unmapped
//! (`madvise`) in FIFO order. That is the policy of the paper's own system, VMS. The next access to
//! such a page is a real page fault, counted by the kernel (`getrusage`). The file is in memory, so
//! no disk is measured.
//!
//! ```text
//!  pagemap:  which pages are mapped ──▶ queue, first mapped first ──▶ unmap down to the working set
//! ```

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

/// A file's memory, with a limited working set.
#[derive(Debug)]
pub(crate) struct Resident {
    base: *mut u8,
    len: usize,
    page: usize,
    working_set: usize,
    pagemap: File,
    /// The mapped pages, oldest first.
    queue: VecDeque<usize>,
    mapped: Vec<bool>,
    /// The pagemap entries read last; kept, so that reading faults in no page of ours.
    entries: Vec<u8>,
}

impl Resident {
    /// Maps a file in memory, `len` bytes long, in pages of the system's size.
    ///
    /// # Errors
    /// If the system refuses the file or the mapping, or does not report which pages are mapped.
    pub(crate) fn new(len: usize, working_set: usize) -> io::Result<Self> {
        let pagemap = File::open("/proc/self/pagemap")?;
        // SAFETY: the name is a C string; the descriptor is new and ours alone.
        let file = unsafe {
            let descriptor = libc::memfd_create(c"pagewise-heap".as_ptr(), libc::MFD_CLOEXEC);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            File::from_raw_fd(descriptor)
        };
        file.set_len(len as u64)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory in use.
        let base = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a plain query.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let mapped = vec![false; len / page];
        Ok(Self {
            base: base.cast(),
            len,
            page,
            working_set,
            pagemap,
            queue: VecDeque::new(),
            mapped,
            entries: vec![0; len / page * size_of::<u64>()],
        })
    }

    /// Returns the system's page size, bytes.
    pub(crate) fn page_size(&self) -> usize {
        self.page
    }

    /// Returns the memory. It stays valid until `self` is dropped.
    pub(crate) fn memory(&self) -> NonNull<[u8]> {
        let base = NonNull::new(self.base).expect("a mapping is not at address 0");
        NonNull::slice_from_raw_parts(base, self.len)
    }

    /// Unmaps the pages beyond the working set. O(pages of the mapping).
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn evict(&mut self) -> io::Result<()> {
        /// Flag of a pagemap entry: the page is mapped.
        const PRESENT: u64 = 1 << 63;
        let first = self.base.addr() / self.page;
        self.pagemap.read_exact_at(&mut self.entries, (first * size_of::<u64>()) as u64)?;
        for (page, entry) in self.entries.chunks_exact(size_of::<u64>()).enumerate() {
            let entry = u64::from_ne_bytes(entry.try_into().expect("eight bytes"));
            if entry & PRESENT != 0 && !self.mapped[page] {
                self.mapped[page] = true;
                self.queue.push_back(page);
            }
        }
        while self.queue.len() > self.working_set
            && let Some(page) = self.queue.pop_front()
        {
            self.mapped[page] = false;
            // SAFETY: the page is in our mapping, which is shared with a file: unmapping loses
            // nothing, its content returns at the next access.
            let refused = unsafe {
                let start = self.base.add(page * self.page);
                libc::madvise(start.cast(), self.page, libc::MADV_DONTNEED)
            };
            if refused != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this; any remaining use of the memory breaks the contract of
        // `memory`.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_replay::system::charged::Faults;

    #[test]
    fn pages_beyond_the_working_set_fault_again() {
        let Ok(mut resident) = Resident::new(1 << 20, 10) else { return };
        let page = resident.page;
        let touch = |resident: &Resident, index: usize| {
            let start = resident.memory().cast::<u8>();
            // SAFETY: the byte is in the mapping, which only this test uses.
            unsafe { start.add(index * page).write_volatile(1) };
        };
        for index in 0..30 {
            touch(&resident, index);
            resident.evict().unwrap();
        }
        let before = Faults::of_thread().count();
        (20..30).for_each(|index| touch(&resident, index));
        let kept = Faults::of_thread().count() - before;
        (0..20).for_each(|index| touch(&resident, index));
        let evicted = Faults::of_thread().count() - before - kept;
        assert!(kept < 10 && evicted >= 20, "{kept} and {evicted} faults");
    }
}
