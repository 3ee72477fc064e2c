//! The session of a recorder: determined once, at the first record, and inherited by `fork`.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire};
use core::sync::atomic::{AtomicPtr, AtomicU32};

use super::log::{Log, off};
use super::settings::{self, Settings};
use super::system::{self, Errno, File};
use crate::raw::request::Request;

/// Null: unknown yet. `off()`: recording is not armed. Otherwise a mapping that is never removed.
static SESSION: AtomicPtr<Session> = AtomicPtr::new(ptr::null_mut());

/// Returns the session, if recording is armed.
#[inline]
pub(super) fn current() -> Option<&'static Session> {
    let mut session = SESSION.load(Acquire);
    if session.is_null() {
        session = begin();
    }
    if session.is_null() || session == off() {
        return None;
    }
    // SAFETY: a published session is valid, never removed, and constant.
    Some(unsafe { &*session })
}

/// The settings, and the log of this process. Complete before it is published; afterwards only the
/// log changes.
pub(super) struct Session {
    /// Never null.
    log: AtomicPtr<Log>,
    /// The [switch](crate::raw::Control): a word of the file, or [`ALWAYS`].
    control: NonNull<AtomicU32>,
    settings: Settings,
}

/// The switch of a directory without one.
static ALWAYS: AtomicU32 = AtomicU32::new(1);

/// Determines whether the environment arms recording, and publishes the answer; null if it is too
/// early to tell.
#[cold]
fn begin() -> *mut Session {
    let _errno = Errno::keep();
    match settings::in_environment() {
        Err(()) => ptr::null_mut(),
        Ok(asked) => publish(asked.as_ref()),
    }
}

/// Arms recording, unless it was determined already whether it is armed.
pub(super) fn arm(request: &Request<'_>) {
    let _errno = Errno::keep();
    publish(Some(request));
}

/// Publishes a session for the request, or `off()`. Returns the published session.
fn publish(asked: Option<&Request<'_>>) -> *mut Session {
    let session =
        asked.filter(|asked| settings::has_usable_directory(asked)).and_then(Session::new);
    let ours = session.map_or(off(), NonNull::as_ptr);
    match SESSION.compare_exchange(ptr::null_mut(), ours, AcqRel, Acquire) {
        Ok(_) => ours,
        Err(theirs) => {
            if let Some(session) = session {
                // SAFETY: our session was never published.
                unsafe { Session::undo(session) };
            }
            theirs
        }
    }
}

impl Session {
    /// Returns the log of this process; `None` while recording is off.
    #[inline]
    pub(super) fn log(&self) -> Option<&'static Log> {
        // SAFETY: the switch is mapped with the session, or static, and never removed.
        let epoch = unsafe { self.control.as_ref() }.load(Acquire);
        if epoch.is_multiple_of(2) { None } else { self.log_of(epoch) }
    }

    /// Returns the log of this value of the switch; `None` if there is a later one already.
    #[inline]
    fn log_of(&self, epoch: u32) -> Option<&'static Log> {
        // SAFETY: a published log is mapped and never removed, and changed through atomics only.
        let log = unsafe { &*self.log.load(Acquire) };
        if log.belongs_to(epoch) { Some(log) } else { self.next_log(epoch) }
    }

    /// Returns a new log after recording was turned on again; `None` if another thread saw a later
    /// value of the switch before this one got here.
    #[cold]
    fn next_log(&self, epoch: u32) -> Option<&'static Log> {
        let _errno = Errno::keep();
        let before = self.log.load(Acquire);
        // SAFETY: a published log is mapped and never removed.
        if unsafe { &*before }.is_later_than(epoch) {
            return None;
        }
        let ours = new_log()?;
        // SAFETY: mapped by us, and not yet published.
        unsafe { ours.as_ref() }.belongs_to(epoch);
        match self.log.compare_exchange(before, ours.as_ptr(), AcqRel, Acquire) {
            // SAFETY: published now, and never removed.
            Ok(_) => Some(unsafe { &*ours.as_ptr() }),
            Err(theirs) => {
                // SAFETY: ours has this length, and was never published. Theirs is published.
                let theirs = unsafe {
                    system::unmap(ours.cast(), size_of::<Log>());
                    &*theirs
                };
                theirs.belongs_to(epoch).then_some(theirs)
            }
        }
    }

    /// Maps a session with its log; `None` on failure.
    fn new(request: &Request<'_>) -> Option<NonNull<Self>> {
        let log = new_log()?;
        let Some(session) = system::map_zeros(size_of::<Self>()) else {
            // SAFETY: mapped above, and not in use.
            unsafe { system::unmap(log.cast(), size_of::<Log>()) };
            return None;
        };
        let session = session.cast::<Self>();
        // SAFETY: the mapping is ours, large enough, aligned to an OS page, and all zeros.
        unsafe {
            let session = session.as_ptr();
            (&raw mut (*session).log).write(AtomicPtr::new(log.as_ptr()));
            Settings::write(&raw mut (*session).settings, request);
            (&raw mut (*session).control).write(switch(&(*session).settings));
        }
        Some(session)
    }

    /// Unmaps a session, except its switch.
    ///
    /// # Safety
    /// It was made by [`new`](Self::new) and never published.
    unsafe fn undo(session: NonNull<Self>) {
        // SAFETY: both mappings have these lengths, and were never published.
        unsafe {
            let log = session.as_ref().log.load(Acquire);
            system::unmap(NonNull::new_unchecked(log).cast(), size_of::<Log>());
            system::unmap(session.cast(), size_of::<Self>());
        }
    }

    /// Returns the settings.
    #[inline]
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// Maps a zeroed log, which a forked child finds zeroed again.
fn new_log() -> Option<NonNull<Log>> {
    let log = system::map_zeros(size_of::<Log>())?;
    if !system::wipe_on_fork(log, size_of::<Log>()) {
        // SAFETY: mapped above, and not in use.
        unsafe { system::unmap(log, size_of::<Log>()) };
        return None;
    }
    Some(log.cast())
}

/// Returns the switch of the directory.
fn switch(settings: &Settings) -> NonNull<AtomicU32> {
    const LEN: usize = size_of::<AtomicU32>();
    let opened = File::open(settings.control_path().c_str(), libc::O_RDWR);
    let mapped = opened.and_then(|file| match file.len() {
        // Beyond the end of the file, a page has no memory.
        len if len < LEN as u64 => Err(libc::EINVAL),
        _ => file.map(0, LEN),
    });
    mapped.map_or(NonNull::from(&ALWAYS), NonNull::cast)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// A thread that saw the switch long ago does not begin a log once there is one of a later
    /// value. (Regression: it did, and the events of the later value went to a third log.)
    #[test]
    fn a_late_thread_begins_no_log() {
        let functions = Default::default();
        let request = Request { functions, max_log: None, stacks: 0, directory: b"/" };
        let session = Session::new(&request).expect("there is memory");
        // SAFETY: the session is not published, and was just made.
        let with = unsafe { session.as_ref() };
        for (epoch, is_logged) in [(1, true), (1, true), (3, true), (1, false), (3, true)] {
            assert_eq!(with.log_of(epoch).is_some(), is_logged, "{epoch}");
        }
        assert!(with.next_log(1).is_none());
        for (epoch, is_logged) in [(u32::MAX, false), (1 << 31 | 1, true), (u32::MAX, true)] {
            assert_eq!(with.log_of(epoch).is_some(), is_logged, "{epoch}");
        }
        assert!(with.log_of(3).is_some(), "values wrap");
    }

    /// A file that is no switch, being too short, changes nothing. (Regression: the first read of
    /// an empty one ended the program.)
    #[test]
    fn a_switch_without_a_number_is_none() {
        use crate::raw::names::CONTROL;

        let name = format!("pagewise-session-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let directory = folder.as_os_str().as_encoded_bytes();
        for (bytes, is_logged) in [(&[][..], true), (&[0; 3], true), (&[0; 4], false)] {
            std::fs::write(folder.join(CONTROL), bytes).unwrap();
            let request =
                Request { functions: Default::default(), max_log: None, stacks: 0, directory };
            let session = Session::new(&request).expect("there is memory");
            // SAFETY: the session is not published, and was just made.
            assert_eq!(unsafe { session.as_ref() }.log().is_some(), is_logged, "{bytes:?}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
