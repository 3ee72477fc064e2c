//! Runs one workload under the allocator it was built with, and prints what it took:
//! `nanoseconds cpu-nanoseconds peak-rss-KiB minor-faults check`, and a line `value name` for each figure that the
//! workload found itself.
//!
//! Run by `cargo bench`, which builds it once for each allocator; by hand:
//! `cargo run --release --features pagewise -- lifo`.

mod allocator;
mod c;
mod found;
mod latency;
mod pin;
mod random;
mod servers;
mod workloads;

use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let parts = arguments.next().and_then(|parts| parts.parse().ok()).unwrap_or(1);
    let parts_of = [workloads::ALL, servers::WORKLOADS, latency::WORKLOADS, c::WORKLOADS];
    let all = parts_of.into_iter().flatten();
    let Some((_, run)) = all.clone().find(|(workload, _)| *workload == name) else {
        eprintln!("there is no workload {name:?}; there are:");
        all.for_each(|(workload, _)| eprintln!("  {workload}"));
        return ExitCode::FAILURE;
    };
    pin::to_cpu(0);
    let start = Instant::now();
    let check = run(parts);
    let time = start.elapsed().as_nanos();
    let (cpu, rss, faults) = resources();
    println!("{time} {cpu} {rss} {faults} {check}");
    found::print();
    ExitCode::SUCCESS
}

/// CPU time of all threads in nanoseconds, peak resident set in KiB, and minor page faults, of this
/// process.
fn resources() -> (i64, i64, i64) {
    // SAFETY: all bits zero is a value, and the call writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let nanoseconds = |time: libc::timeval| time.tv_sec * 1_000_000_000 + time.tv_usec * 1_000;
    let cpu = nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
    (cpu, usage.ru_maxrss, usage.ru_minflt)
}
