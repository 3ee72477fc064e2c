//! Tests that a handler of the program is called behind the one of this allocator as without it.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::super::action_of;
use super::on_fault;
use crate::os::alone;

/// The flags that an installation keeps.
const KEPT: [c_int; 3] = [libc::SA_ONSTACK, libc::SA_NODEFER, libc::SA_RESTART];

/// Handles a signal with a function of the program, and behind it with the allocator's.
fn install(handler: extern "C" fn(c_int), flags: c_int) {
    // SAFETY: all zeros is a valid action; the handler takes one argument, as the flags say.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()), 0);
    }
    on_fault(|_| {});
}

/// Faults.
fn fault() {
    // SAFETY: the fault is what is tested; nothing is at this address.
    unsafe { ptr::without_provenance::<u8>(8).read_volatile() };
}

/// Returns the status with which a child of a fork ends that runs `action`.
fn status_of(action: impl FnOnce()) -> c_int {
    // SAFETY: the child runs `action`, and ends; the status is valid for writes.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            action();
            libc::_exit(99);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        status
    }
}

/// How often [`count_calls`] was called.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Ends the process when it is called for the third time.
extern "C" fn count_calls(_: c_int) {
    if CALLS.fetch_add(1, Relaxed) == 2 {
        // SAFETY: the process has nothing to clean up.
        unsafe { libc::_exit(3) };
    }
}

/// Ends the process with this number.
extern "C" fn end(_: c_int) {
    // SAFETY: the process has nothing to clean up.
    unsafe { libc::_exit(4) };
}

/// Ends the process: with 1 if the handler runs on the alternate stack, otherwise with 2.
extern "C" fn tell_stack(_: c_int) {
    let mut stack = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: the call writes the state of this thread's alternate stack.
    unsafe {
        libc::sigaltstack(ptr::null(), stack.as_mut_ptr());
        let is_alternate = stack.assume_init().ss_flags & libc::SS_ONSTACK != 0;
        libc::_exit(if is_alternate { 1 } else { 2 });
    }
}

/// Gives this thread an alternate stack.
fn with_alternate_stack() {
    let memory = Vec::leak(vec![0_u8; 1 << 16]);
    let stack =
        libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
    // SAFETY: the memory is never freed, and used for nothing else.
    assert_eq!(unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) }, 0);
}

/// (Regression: a handler that is to be called once was called for ever.)
#[test]
fn a_handler_for_one_signal_is_called_once() {
    alone::passes("os::posix::faults::tests::once");
}

#[test]
#[ignore = "in a process of its own"]
fn once() {
    let always = status_of(|| {
        install(count_calls, 0);
        fault();
    });
    assert!(libc::WIFEXITED(always) && libc::WEXITSTATUS(always) == 3, "{always:#x}");
    let once = status_of(|| {
        install(count_calls, libc::SA_RESETHAND);
        fault();
    });
    assert!(libc::WIFSIGNALED(once) && libc::WTERMSIG(once) == libc::SIGSEGV, "{once:#x}");
    // It is called for that one signal, before the default is.
    let called = status_of(|| {
        install(end, libc::SA_RESETHAND);
        fault();
    });
    assert!(libc::WIFEXITED(called) && libc::WEXITSTATUS(called) == 4, "{called:#x}");
}

/// (Regression: every handler ran on the alternate stack, which may be too small for it.)
#[test]
fn a_handler_runs_on_the_stack_that_it_asks_for() {
    alone::passes("os::posix::faults::tests::stack");
}

#[test]
#[ignore = "in a process of its own"]
fn stack() {
    for (flags, told) in [(libc::SA_ONSTACK, 1), (0, 2)] {
        let status = status_of(|| {
            with_alternate_stack();
            install(tell_stack, flags);
            fault();
        });
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == told, "{status:#x}");
    }
}

/// (Regression: a signal that was sent interrupted system calls that the program's handler lets go
/// on.)
#[test]
fn flags_of_a_handler_are_kept() {
    alone::passes("os::posix::faults::tests::flags");
}

#[test]
#[ignore = "in a process of its own"]
fn flags() {
    for chosen in 0..1 << KEPT.len() {
        let flags = KEPT.iter().enumerate().filter(|(at, _)| chosen >> at & 1 != 0);
        let flags = flags.fold(0, |all, (_, flag)| all | flag);
        let is_kept = alone::in_child(|| {
            install(end, flags);
            let now = action_of(libc::SIGSEGV).expect("it is known");
            let kept = KEPT.iter().fold(0, |all, flag| all | flag);
            now.sa_sigaction != end as *const () as usize && now.sa_flags & kept == flags
        });
        assert!(is_kept, "{flags:#x}");
    }
}

#[test]
#[cfg(not(target_os = "macos"))]
fn a_handler_that_is_put_back_is_as_before() {
    alone::passes("os::posix::faults::tests::back");
}

#[test]
#[ignore = "in a process of its own"]
#[cfg(not(target_os = "macos"))]
fn back() {
    const ALL: c_int = libc::SA_SIGINFO
        | libc::SA_ONSTACK
        | libc::SA_NODEFER
        | libc::SA_RESTART
        | libc::SA_RESETHAND;
    for flags in [0, libc::SA_RESETHAND, libc::SA_RESTART | libc::SA_ONSTACK] {
        let is_back = alone::in_child(|| {
            install(end, flags);
            super::put_handlers_back();
            let now = action_of(libc::SIGSEGV).expect("it is known");
            now.sa_sigaction == end as *const () as usize && now.sa_flags & ALL == flags
        });
        assert!(is_back, "{flags:#x}");
    }
}
