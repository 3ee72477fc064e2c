//! Memory with a limited number of resident pages, which can be queried (Brent §2.12): a pager of
//! ours, driven by the kernel's own page faults.
//!
//! A touch of a missing page stops the program's thread in the kernel, which notifies the pager's
//! thread. The pager's thread evicts the oldest page, saves its content, and brings in the missing
//! one. Evicted pages are in no cache and in no memory that the program could reach, and `mincore`
//! is right about each page, since they are anonymous. (For a file's pages it reports which are in
//! the page cache, regardless of the process; for a file without write permission, it reports all
//! as resident.)
//!
//! ```text
//!  program ──touch──▶ kernel ──fault──▶ pager's thread ──first page out──▶ store
//!     ▲                 ▲                      └──missing page in◀──────────┘
//!     └──mincore────────┘
//! ```

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use super::userfault::Userfault;

/// Memory with a limited working set.
#[derive(Debug)]
pub(crate) struct Pager {
    memory: Mapping,
    page: usize,
    faults: Arc<AtomicU64>,
    asked: Cell<u64>,
    /// Closed to end the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Pager {
    /// Maps `len` bytes in pages of the system's size, at most `working_set` of them resident.
    ///
    /// # Errors
    /// If the system runs out of memory, or does not pass page faults to user space.
    pub(crate) fn new(len: usize, working_set: usize) -> io::Result<Self> {
        let page = page_size();
        let [memory, store] = [Mapping::new(len)?, Mapping::new(len)?];
        let userfault = Userfault::of(memory.base, len)?;
        let (wait, stop) = io::pipe()?;
        let faults = Arc::new(AtomicU64::new(0));
        let mut paging = Paging {
            userfault,
            memory: memory.base.expose_provenance(),
            store,
            page,
            working_set: working_set.max(1),
            there: VecDeque::new(),
            faults: Arc::clone(&faults),
        };
        let thread = std::thread::Builder::new().name("pager".to_owned()).spawn(move || {
            if let Err(error) = paging.serve(&wait) {
                // The program's thread would wait forever for the page.
                eprintln!("the pager cannot bring a page: {error}");
                std::process::exit(1);
            }
        })?;
        let (stop, thread) = (Some(stop), Some(thread));
        Ok(Self { memory, page, faults, asked: Cell::new(0), stop, thread })
    }

    /// Returns the memory. It stays valid until `self` is dropped.
    pub(crate) fn memory(&self) -> NonNull<[u8]> {
        let base = NonNull::new(self.memory.base).expect("a mapping is not at address 0");
        NonNull::slice_from_raw_parts(base, self.memory.len)
    }

    /// Returns the number of pages brought in so far.
    pub(crate) fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// Returns the number of [`resident`](Self::resident) queries so far.
    pub(crate) fn queries(&self) -> u64 {
        self.asked.get()
    }

    /// Returns which of the first `pages` pages are resident, according to the system. O(pages).
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn resident(&self, pages: usize) -> io::Result<Vec<bool>> {
        self.asked.set(self.asked.get() + 1);
        let mut answer = vec![0; pages];
        let len = (pages * self.page).min(self.memory.len);
        // SAFETY: the range is ours; one byte is written per page, and there is room for it.
        let refused = unsafe { libc::mincore(self.memory.base.cast(), len, answer.as_mut_ptr()) };
        if refused != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(answer.into_iter().map(|byte: u8| byte & 1 != 0).collect())
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If the thread cannot continue, it ends the process itself.
            let _ = thread.join();
        }
    }
}

/// Returns the system's page size, bytes.
pub(crate) fn page_size() -> usize {
    // SAFETY: a plain query.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// The state of the pager's thread.
struct Paging {
    userfault: Userfault,
    /// Address of the memory.
    memory: usize,
    /// The contents of evicted pages; zeros at first, as in a fresh mapping.
    store: Mapping,
    page: usize,
    working_set: usize,
    /// The resident pages, oldest first.
    there: VecDeque<usize>,
    faults: Arc<AtomicU64>,
}

impl Paging {
    /// Serves faults until the other end of `wait` is closed.
    fn serve(&mut self, wait: &impl AsFd) -> io::Result<()> {
        loop {
            let watched = [self.userfault.descriptor().as_raw_fd(), wait.as_fd().as_raw_fd()];
            let mut polled =
                watched.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
            // SAFETY: two entries, both open descriptors.
            if unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) } < 0 {
                match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => continue,
                    error => return Err(error),
                }
            }
            if polled[1].revents != 0 {
                return Ok(());
            }
            while let Some(address) = self.userfault.next()? {
                self.faults.fetch_add(1, Ordering::Relaxed);
                self.bring((address - self.memory) / self.page)?;
            }
        }
    }

    /// Brings a missing page in, and evicts the oldest one if there are too many.
    fn bring(&mut self, page: usize) -> io::Result<()> {
        if self.there.len() == self.working_set
            && let Some(first) = self.there.pop_front()
        {
            let from = self.address(first);
            // SAFETY: the page is resident, and the program's thread waits, so no thread writes to
            // it. The store's page is in another mapping.
            let refused = unsafe {
                self.kept(first).copy_from_nonoverlapping(from, self.page);
                libc::madvise(from.cast(), self.page, libc::MADV_DONTNEED)
            };
            if refused != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        self.there.push_back(page);
        // SAFETY: the store's page is in a mapping that only this thread uses.
        let content = unsafe { std::slice::from_raw_parts(self.kept(page), self.page) };
        // SAFETY: a page of the memory, whose owner waits for this thread before it unmaps it.
        unsafe { self.userfault.bring(self.address(page), content) }
    }

    fn address(&self, page: usize) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.memory + page * self.page)
    }

    fn kept(&self, page: usize) -> *mut u8 {
        self.store.base.wrapping_add(page * self.page)
    }
}

/// Anonymous memory of our own.
#[derive(Debug)]
struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: memory is not tied to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(len: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory in use.
        let base = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this; any remaining use of the memory breaks the contract of
        // `memory`.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const PAGES: usize = 40;
    const WORKING_SET: usize = 7;

    /// Touches random pages, and after each touch compares the pager with a FIFO list.
    #[test]
    fn pages_are_evicted_first_in_first_out_and_keep_their_content() {
        let Ok(pager) = Pager::new(PAGES * page_size(), WORKING_SET) else { return };
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let (mut there, mut faults) = (VecDeque::new(), 0);
        let mut content = [0_u32; PAGES];
        for round in 1..2000 {
            let page = random.random_range(0..PAGES);
            // SAFETY: the word is in the pager's memory, which only this test uses.
            let found = unsafe {
                let word = pager.memory().cast::<u8>().add(page * pager.page).cast::<u32>();
                let found = word.read_volatile();
                word.write_volatile(round);
                found
            };
            assert_eq!(found, content[page], "page {page}");
            content[page] = round;
            if !there.contains(&page) {
                faults += 1;
                there.push_back(page);
                if there.len() > WORKING_SET {
                    there.pop_front();
                }
            }
            assert_eq!(pager.faults(), faults);
            let resident = pager.resident(PAGES).unwrap();
            let expected: Vec<bool> = (0..PAGES).map(|page| there.contains(&page)).collect();
            assert_eq!(resident, expected);
        }
        assert_eq!(pager.queries(), 1999);
    }
}
