//! Page faults handled in user space (`userfaultfd`): a thread that touches a missing page waits
//! until we supply it.
//!
//! Parts of the kernel's interface used: `UFFDIO_API`, `UFFDIO_REGISTER` for missing pages,
//! `UFFDIO_COPY`. Faults in the kernel's own accesses are excluded (`UFFD_USER_MODE_ONLY`), so no
//! privilege is needed.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

/// The descriptor by which the system reports the faults of a mapping.
#[derive(Debug)]
pub(crate) struct Userfault {
    file: File,
}

/// `struct uffdio_api`.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_copy`.
#[repr(C)]
struct Copy {
    to: u64,
    from: u64,
    len: u64,
    mode: u64,
    copied: i64,
}

/// Size of `struct uffd_msg`; for a page fault: event, then padding, flags and address.
const MESSAGE: usize = 32;
const ADDRESS_AT: usize = 16;
/// `UFFD_EVENT_PAGEFAULT`.
const PAGE_FAULT: u8 = 0x12;

/// `_IOWR(0xAA, number, T)`, as the kernel encodes it on most processors.
const fn request<T>(number: u32) -> u32 {
    3 << 30 | (size_of::<T>() as u32) << 16 | 0xAA << 8 | number
}

impl Userfault {
    /// Registers `len` bytes at `start` for reports of missing pages; both are multiples of the
    /// page size.
    ///
    /// # Errors
    /// If the system lacks this, or does not allow it.
    pub(crate) fn of(start: *mut u8, len: usize) -> io::Result<Self> {
        /// `UFFD_USER_MODE_ONLY`.
        const USER_MODE_ONLY: libc::c_int = 1;
        // SAFETY: a descriptor returned without an error is new and ours alone.
        let file = unsafe {
            let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
            let descriptor = libc::syscall(libc::SYS_userfaultfd, flags);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            File::from_raw_fd(descriptor as libc::c_int)
        };
        let this = Self { file };
        this.call(0x3F, &mut Api { api: 0xAA, features: 0, ioctls: 0 })?;
        let (start, len) = (start.addr() as u64, len as u64);
        // Mode 1: missing pages.
        this.call(0x00, &mut Register { start, len, mode: 1, ioctls: 0 })?;
        Ok(this)
    }

    /// Returns the descriptor, which becomes readable when there is a fault.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.file.as_fd()
    }

    /// Returns the address of a pending fault, if there is one.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn next(&self) -> io::Result<Option<usize>> {
        let mut message = [0; MESSAGE];
        match (&self.file).read(&mut message) {
            Ok(MESSAGE) if message[0] == PAGE_FAULT => {
                let address = message[ADDRESS_AT..][..8].try_into().expect("eight bytes");
                Ok(Some(u64::from_ne_bytes(address) as usize))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Supplies a missing page with this content, and resumes the threads that wait for it.
    ///
    /// # Safety
    /// The page at `to` is in the registered mapping, and that mapping still exists.
    ///
    /// # Errors
    /// If the system refuses, for example because memory is exhausted or the page is not missing.
    pub(crate) unsafe fn bring(&self, to: *mut u8, content: &[u8]) -> io::Result<()> {
        let mut copy = Copy {
            to: to.addr() as u64,
            from: content.as_ptr().addr() as u64,
            len: content.len() as u64,
            mode: 0,
            copied: 0,
        };
        self.call(0x03, &mut copy)
    }

    fn call<T>(&self, number: u32, argument: &mut T) -> io::Result<()> {
        // SAFETY: the request encodes the size of its argument; a copy writes only to missing
        // pages, which hold no data yet.
        let refused =
            unsafe { libc::ioctl(self.file.as_raw_fd(), request::<T>(number) as _, argument) };
        if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
