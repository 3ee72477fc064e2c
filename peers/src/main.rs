//! Runs one workload under the allocator it was built with, and prints its resources: `nanoseconds
//! cpu-nanoseconds peak-rss-KiB minor-faults check`, and a line `value name` for each figure that
//! the workload measured itself.
//!
//! Run by `cargo bench`, which builds it once per allocator; by hand: `cargo run --release
//! --features pagewise -- lifo`.

mod allocator;
mod buffers;
mod c;
mod found;
mod latency;
mod random;
mod servers;
mod system;
mod workloads;

use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let parts = arguments.next().and_then(|parts| parts.parse().ok()).unwrap_or(1);
    let parts_of =
        [workloads::ALL, buffers::WORKLOADS, servers::WORKLOADS, latency::WORKLOADS, c::WORKLOADS];
    let all = parts_of.into_iter().flatten();
    let Some((_, run)) = all.clone().find(|(workload, _)| *workload == name) else {
        eprintln!("unknown workload {name:?}; available:");
        all.for_each(|(workload, _)| eprintln!("  {workload}"));
        return ExitCode::FAILURE;
    };
    system::to_cpu(0);
    let start = Instant::now();
    let check = run(parts);
    let time = start.elapsed().as_nanos();
    let system::Resources { cpu, peak, faults } = system::resources();
    println!("{time} {cpu} {peak} {faults} {check}");
    found::print();
    ExitCode::SUCCESS
}
