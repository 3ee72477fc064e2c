//! Keeps a thread on one CPU while it measures.

#[cfg(target_os = "linux")]
use std::mem;

/// While this value lives, its thread runs on one CPU, if the system supports that; so do the
/// threads and processes that it starts.
#[derive(Debug)]
pub struct Pinned {
    /// The CPUs that the thread could use before; `None` if it was not pinned.
    #[cfg(target_os = "linux")]
    before: Option<libc::cpu_set_t>,
}

#[cfg(target_os = "linux")]
impl Pinned {
    /// Pins the calling thread to one of its allowed CPUs: the one that is `place` before the last,
    /// in cyclic order, since interrupts are usually served by the first ones.
    pub fn to_cpu(place: usize) -> Self {
        let size = mem::size_of::<libc::cpu_set_t>();
        // SAFETY: all-zero bits are the empty set; the calls read and write sets of the given size,
        // and CPU numbers are below the set's capacity.
        unsafe {
            let mut allowed: libc::cpu_set_t = mem::zeroed();
            if libc::sched_getaffinity(0, size, &mut allowed) != 0 {
                return Self { before: None };
            }
            let cpus = (0..libc::CPU_SETSIZE as usize).rev();
            let cpus: Vec<_> = cpus.filter(|&cpu| libc::CPU_ISSET(cpu, &allowed)).collect();
            let Some(&cpu) = cpus.get(place % cpus.len().max(1)) else {
                return Self { before: None };
            };
            let mut one: libc::cpu_set_t = mem::zeroed();
            libc::CPU_SET(cpu, &mut one);
            let pinned = libc::sched_setaffinity(0, size, &one) == 0;
            Self { before: pinned.then_some(allowed) }
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: the set is the one that the thread had.
            unsafe { libc::sched_setaffinity(0, mem::size_of_val(before), before) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Pinned {
    /// Does nothing here.
    pub fn to_cpu(_: usize) -> Self {
        Self {}
    }
}

impl Pinned {
    /// Pins the calling thread, and the threads and processes that it starts, to one CPU.
    pub fn to_one_cpu() -> Self {
        Self::to_cpu(0)
    }
}
