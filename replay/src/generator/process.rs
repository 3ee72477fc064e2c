//! The simulated process: a queue of events, with an arrival per size and a departure per live
//! block. Memory is bounded by the number of sizes and live blocks.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use anyhow::ensure;
use pagewise::trace::{Event, Slots};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1};

use super::distribution::{Distribution, SizeClass};

/// Alignment of every request in bytes, as for C's `malloc`.
const ALIGN: u32 = 16;

/// Generates the events of a simulated process. It is an iterator.
pub struct Process<'d> {
    classes: &'d [SizeClass],
    /// End of the process, in seconds.
    until: f64,
    random: ChaCha8Rng,
    queue: BinaryHeap<Due>,
    /// Number of events ever queued; breaks ties.
    entered: u64,
    slots: Slots,
    /// The trace's clock, in microseconds.
    clock: u64,
    /// The event that follows a tick.
    held_back: Option<Event>,
}

/// A future event.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// Seconds from the start.
    time: f64,
    number: u64,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A block of this class is allocated.
    Arrival(usize),
    /// The block of this slot is freed.
    Departure(u32),
}

/// Reversed, because `BinaryHeap` returns the greatest first, and the earliest is wanted.
impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        other.time.total_cmp(&self.time).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Due {}

impl<'d> Process<'d> {
    /// Returns the process from 0 to `seconds`, beginning without live blocks.
    ///
    /// # Errors
    /// If a class is not [possible](SizeClass::is_possible), such as one with a negative rate: the
    /// events would go back in time, or have no end.
    pub fn new(distribution: &'d Distribution, seconds: f64, seed: u64) -> anyhow::Result<Self> {
        for class in &distribution.classes {
            ensure!(class.is_possible(), "{class:?} is not possible");
        }
        let mut process = Self {
            classes: &distribution.classes,
            until: seconds,
            random: ChaCha8Rng::seed_from_u64(seed),
            queue: BinaryHeap::new(),
            entered: 0,
            slots: Slots::new(),
            clock: 0,
            held_back: None,
        };
        for class in 0..process.classes.len() {
            process.enter(0.0, 1.0 / process.classes[class].rate, What::Arrival(class));
        }
        Ok(process)
    }

    /// Schedules an event after an exponentially distributed time with this mean.
    fn enter(&mut self, now: f64, mean: f64, what: What) {
        let wait: f64 = Exp1.sample(&mut self.random);
        let time = now + mean * wait;
        // Events after the end are not queued.
        if time < self.until {
            self.queue.push(Due { time, number: self.entered, what });
            self.entered += 1;
        }
    }

    /// Performs the next scheduled event; `None` at the end.
    fn happen(&mut self) -> Option<(f64, Event)> {
        let due = self.queue.pop()?;
        let event = match due.what {
            What::Arrival(index) => {
                let class = self.classes[index];
                self.enter(due.time, 1.0 / class.rate, due.what);
                // If more blocks are live than a trace can name, the process ends.
                let slot = self.slots.take()?;
                self.enter(due.time, class.holding(), What::Departure(slot));
                Event::Allocate { slot, size: class.size, align: ALIGN }
            }
            What::Departure(slot) => {
                self.slots.free(slot);
                Event::Free { slot }
            }
        };
        Some((due.time, event))
    }
}

impl Iterator for Process<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.held_back.take() {
            return Some(event);
        }
        let (time, event) = self.happen()?;
        let now = (time * 1e6) as u64;
        let ticks = now - self.clock;
        if ticks == 0 {
            return Some(event);
        }
        self.clock = now;
        self.held_back = Some(event);
        Some(Event::Tick { ticks })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn distribution() -> Distribution {
        Distribution {
            classes: vec![
                SizeClass { size: 16, rate: 1000.0, live: 500.0 },
                SizeClass { size: 4096, rate: 50.0, live: 200.0 },
            ],
        }
    }

    /// The measurements of one size, after the first `warm` seconds.
    #[derive(Default)]
    struct Measured {
        allocations: f64,
        live: f64,
        /// Integral of the live count over time.
        live_seconds: f64,
    }

    #[test]
    fn rates_and_live_counts_are_those_of_the_distribution() {
        const WARM: f64 = 40.0;
        const SECONDS: f64 = 440.0;
        let mut time = 0.0;
        let mut sizes: HashMap<u32, u64> = HashMap::new();
        let mut measured: HashMap<u64, Measured> = HashMap::new();
        for event in Process::new(&distribution(), SECONDS, 7).unwrap() {
            match event {
                Event::Tick { ticks } => {
                    let step = ticks as f64 / 1e6;
                    time += step;
                    if time > WARM {
                        measured.values_mut().for_each(|one| one.live_seconds += one.live * step);
                    }
                }
                Event::Allocate { slot, size, .. } => {
                    assert_eq!(sizes.insert(slot, size), None);
                    let one = measured.entry(size).or_default();
                    one.live += 1.0;
                    one.allocations += f64::from(u8::from(time > WARM));
                }
                Event::Free { slot } => {
                    let size = sizes.remove(&slot).expect("a live block is freed");
                    measured.entry(size).or_default().live -= 1.0;
                }
                _ => panic!("{event:?}"),
            }
        }
        let span = SECONDS - WARM;
        for class in distribution().classes {
            let one = &measured[&class.size];
            let near = |found: f64, wanted: f64, tolerance: f64| {
                assert!((found / wanted - 1.0).abs() < tolerance, "{class:?}: {found}");
            };
            // Three standard deviations of the rarer size: √(50 · 400) of 20,000 arrivals.
            near(one.allocations / span, class.rate, 0.022);
            // The live count varies by √live, and is independent after a holding time: 100
            // independent samples of the rarer size.
            near(one.live_seconds / span, class.live, 0.03);
        }
    }

    /// (Regression: events went on without end, or backwards.)
    #[test]
    fn impossible_classes_are_refused() {
        let events = |rate, live| {
            let distribution = Distribution { classes: vec![SizeClass { size: 16, rate, live }] };
            Process::new(&distribution, 1.0, 1).ok().map(|made| made.take(10_000).count())
        };
        let rates = [-1.0, -0.0, f64::INFINITY].map(|rate| (rate, 1.0));
        let both = [f64::NAN, f64::NEG_INFINITY].map(|number| [(number, 1.0), (100.0, number)]);
        for (rate, live) in rates.into_iter().chain(both.into_iter().flatten()) {
            assert_eq!(events(rate, live), None, "{rate} {live}");
        }
        assert_eq!(events(100.0, -1.0), None);
        // What is never requested, and what is never held, is possible.
        assert_eq!(events(0.0, 1.0), Some(0));
        assert!(events(100.0, 0.0).is_some_and(|events| (100..1000).contains(&events)));
    }

    #[test]
    fn the_seed_determines_the_result() {
        let events = |seed| Process::new(&distribution(), 1.0, seed).unwrap().collect::<Vec<_>>();
        assert_eq!(events(1), events(1));
        assert_ne!(events(1), events(2));
    }
}
