//! The session of a recorder: found out once, at the first record, and inherited by `fork`.

use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Acquire};

use super::log::{Log, off};
use super::settings::{self, Settings};
use super::system::{self, Errno};

/// Null: not known yet. `off()`: recording is not armed. Otherwise a mapping that is never undone.
static SESSION: AtomicPtr<Session> = AtomicPtr::new(ptr::null_mut());

/// The session, if recording is armed.
#[inline]
pub(super) fn current() -> Option<&'static Session> {
    let mut session = SESSION.load(Acquire);
    if session.is_null() {
        session = begin();
    }
    if session.is_null() || session == off() {
        return None;
    }
    // SAFETY: a published session is valid, never undone, and constant.
    Some(unsafe { &*session })
}

/// What the environment asked for, and the log of this process. Written before it is published,
/// constant afterwards.
pub(super) struct Session {
    log: NonNull<Log>,
    settings: Settings,
}

/// Finds out whether recording is armed, and publishes the answer; null if it is too early to
/// tell.
#[cold]
fn begin() -> *mut Session {
    let _errno = Errno::keep();
    let session = match settings::directory() {
        Err(()) => return ptr::null_mut(),
        Ok(None) => None,
        Ok(Some(directory)) => Session::new(directory),
    };
    let ours = session.map_or(off(), NonNull::as_ptr);
    match SESSION.compare_exchange(ptr::null_mut(), ours, AcqRel, Acquire) {
        Ok(_) => ours,
        Err(theirs) => {
            if let Some(session) = session {
                // SAFETY: nobody else has seen our session.
                unsafe { Session::undo(session) };
            }
            theirs
        }
    }
}

impl Session {
    /// The log of this process.
    #[inline]
    pub(super) fn log(&self) -> &'static Log {
        // SAFETY: the log is mapped with the session, never undone once that is published, and
        // changed through atomics only.
        unsafe { self.log.as_ref() }
    }

    /// Maps a session with its log; `None` if the system cannot.
    fn new(directory: &[u8]) -> Option<NonNull<Self>> {
        let log = system::map_zeros(size_of::<Log>())?;
        if !system::wipe_on_fork(log, size_of::<Log>()) {
            // SAFETY: mapped above, and used by nobody.
            unsafe { system::unmap(log, size_of::<Log>()) };
            return None;
        }
        let Some(session) = system::map_zeros(size_of::<Self>()) else {
            // SAFETY: as above.
            unsafe { system::unmap(log, size_of::<Log>()) };
            return None;
        };
        let session = session.cast::<Self>();
        // SAFETY: the mapping is ours, large enough, aligned to an OS page, and all zeros.
        unsafe {
            let session = session.as_ptr();
            (&raw mut (*session).log).write(log.cast());
            Settings::write(&raw mut (*session).settings, directory);
        }
        Some(session)
    }

    /// Takes a session back.
    ///
    /// # Safety
    /// It was made by [`new`](Self::new) and never published.
    unsafe fn undo(session: NonNull<Self>) {
        // SAFETY: both mappings have these lengths, and nobody else knows them.
        unsafe {
            system::unmap(session.as_ref().log.cast(), size_of::<Log>());
            system::unmap(session.cast(), size_of::<Self>());
        }
    }

    /// What the environment asked for.
    #[inline]
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }
}
