//! Runs threads under `Pagewise` for any length of time.
//!
//! Without arguments, for ThreadSanitizer: when memory passes from one thread to another through
//! the allocator, the allocator's locks alone must order the accesses.
//!
//! ```sh
//! TSAN_OPTIONS=suppressions=suppressions.txt RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=thread \
//!     cargo run -Zbuild-std --target x86_64-unknown-linux-gnu
//! ```
//! It needs the component `rust-src`, so that `std` is instrumented as well. A race makes it exit
//! with 66.
//!
//! With a number of minutes, for memory: the same threads run repeatedly, with a peak of 256 MiB
//! once a minute and without any call of `purge`. Resident memory is sampled every second, and its
//! curve is written as a picture. It must not rise: the last tenth of the run is compared with the
//! second.
//!
//! ```sh
//! cargo run --release -- 60 curve.svg
//! ```

mod curve;
#[path = "../../random/mod.rs"]
mod random;
mod threads;

use std::env;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use curve::Curve;
use pagewise::global::Pagewise;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [] => {
            for generation in 1..9 {
                threads::generation(&ALLOCATOR, generation, 4, true);
                threads::exchange_waves(&ALLOCATOR, generation, 4);
                threads::exchange_buffers(&ALLOCATOR, generation, 4);
                threads::exchange_mapped(generation, 4);
            }
            println!("no races; {:?}", ALLOCATOR.stats());
            ExitCode::SUCCESS
        }
        [minutes, picture] => match minutes.parse() {
            Ok(minutes) => soak(minutes, picture),
            Err(_) => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: soak [MINUTES PICTURE.svg]");
    ExitCode::from(2)
}

/// Runs this long; fails if memory rises or the picture cannot be written.
fn soak(minutes: u64, picture: &str) -> ExitCode {
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let end = start + Duration::from_secs(60 * minutes);
    let (curve, generations) = thread::scope(|scope| {
        let curve = scope.spawn(|| {
            let mut curve = Curve::new();
            while !stop.load(Ordering::Relaxed) {
                curve.sample(start.elapsed());
                thread::sleep(Duration::from_secs(1));
            }
            curve
        });
        let (mut generation, mut peaks) = (0, 0);
        while Instant::now() < end {
            generation += 1;
            threads::generation(&ALLOCATOR, generation, 2, false);
            if generation % 100 == 0 {
                threads::exchange_waves(&ALLOCATOR, generation, 2);
                threads::exchange_buffers(&ALLOCATOR, generation, 2);
                threads::exchange_mapped(generation, 2);
            }
            if start.elapsed().as_secs() / 60 >= peaks {
                threads::peak(256 << 20);
                peaks += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
        (curve.join().expect("the sampler ends"), generation)
    });
    println!("{} generations of threads in {} s", generations, start.elapsed().as_secs());
    println!("{}", ALLOCATOR.stats());
    print!("{curve}");
    if let Err(error) = std::fs::write(picture, curve.picture()) {
        eprintln!("{picture}: {error}");
        return ExitCode::FAILURE;
    }
    if curve.rises() {
        eprintln!("memory rises");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
