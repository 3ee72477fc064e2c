//! Measures a choice on data that the search has not seen: beside the default, the C library's
//! allocator, Lea's, and those of other libraries. They take turns on one CPU, each run in its own
//! process.

use std::path::PathBuf;

use pagewise_replay::lea::Lea;
use pagewise_replay::progress::Progress;
use pagewise_replay::system::affinity::Pinned;
use pagewise_replay::timing::turns;
use pagewise_replay::workload::{CAPACITY, Stop};
use serde::{Deserialize, Serialize};

use super::candidate::{Candidate, Family};
use super::goal::{Cap, Goal};
use super::measure::{Allocator, Course, Measured, Relative, finished, mean_ratio, median};
use crate::competitor::{LEA, SYSTEM};
use crate::served::{self, Server};
use crate::simulate;
use crate::system::library::Library;

/// Timed rounds.
const ROUNDS: usize = 9;
/// Smaller gains do not count, however exact.
pub(super) const LEAST: f64 = 0.005;

/// The results on the held-out part.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HeldOut {
    /// The choice's standing; the default's is 1.
    pub(crate) chosen: Standing,
    /// The rivals' standings; the default's is 1. `None` for one without a result.
    pub(crate) rivals: Vec<(String, Option<Standing>)>,
    /// The rivals without a result, each with the trace and the reason.
    #[serde(default)]
    pub(crate) stopped: Vec<String>,
    /// The possible error of the default's measures, as a fraction: the difference between the
    /// default and the default measured again; for times the spread of the rounds, if larger.
    pub(crate) noise: Relative,
    /// How much less than the default's the goal's measure is, as a fraction.
    pub(crate) gain: f64,
    /// Whether the gain exceeds the noise.
    pub(crate) gained: bool,
    /// Whether the cap is kept here as well.
    pub(crate) keeps_cap: bool,
}

/// A participant's measures relative to the default's: geometric means over the traces.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) time: f64,
    /// The family's memory measure, and page faults; `None` if unknown.
    pub(crate) memory: Option<f64>,
    pub(crate) faults: Option<f64>,
    /// Peak of the resident bytes.
    pub(crate) resident: f64,
}

impl Standing {
    /// The default's.
    pub(super) const DEFAULT: Self =
        Self { time: 1.0, memory: Some(1.0), faults: Some(1.0), resident: 1.0 };

    /// Returns the standing as relative measures; `None` if one is unknown.
    pub(crate) fn relative(&self) -> Option<Relative> {
        Some(Relative { time: self.time, memory: self.memory?, faults: self.faults? })
    }
}

/// A participant.
struct Lane {
    name: String,
    allocator: Allocator,
}

impl Lane {
    fn new(name: &str, allocator: Allocator) -> Self {
        Self { name: name.to_owned(), allocator }
    }

    fn of_server(name: &str, server: Server) -> Self {
        Self::new(name, Allocator { server, library: None })
    }

    fn of_library(library: &Library) -> Self {
        let allocator = Allocator { server: Server::Malloc, library: Some(library.clone()) };
        Self::new(&library.name, allocator)
    }

    /// Returns the exact measures on one trace, or why there are none.
    fn run(&self, family: Family, course: &Course) -> anyhow::Result<Result<Run, String>> {
        let (server, library) = (&self.allocator.server, self.allocator.library.as_ref());
        let memory = match served::memory(&course.path, server, library)? {
            Ok(memory) => memory,
            Err(stop) => return self.stopped(course, stop).map(Err),
        };
        let exact = match family {
            Family::Global | Family::Preload => Some((memory.resident, memory.faults)),
            Family::Arena => self.of_arena(course)?,
        };
        Ok(Ok(Run { exact, resident: memory.resident, times: Vec::new() }))
    }

    /// Says why there is no result on a trace.
    ///
    /// # Errors
    /// If the trace could not be read.
    fn stopped(&self, course: &Course, stop: Stop) -> anyhow::Result<String> {
        match stop {
            Stop::Trace(error) => Err(error),
            stop => Ok(format!("{} on {}: {stop}", self.name, course.workload.name)),
        }
    }

    /// Returns the peak of the bytes held, and page faults as the search counts them for an arena;
    /// `None` if unknown.
    fn of_arena(&self, course: &Course) -> anyhow::Result<Option<(u64, u64)>> {
        match &self.allocator.server {
            Server::Lea => {
                let mut lea = Lea::new(CAPACITY);
                let faults = finished(simulate::faults_at_half(&course.workload, &mut lea))?;
                Ok(faults.map(|faults| (lea.peak_held() as u64, faults)))
            }
            // A preloaded library does not report how much it holds.
            Server::Malloc if self.allocator.library.is_some() => Ok(None),
            Server::Malloc => {
                let faults = simulate::faults_of_system_at_half(&course.path, &course.workload)?;
                let held = finished(served::holding(&course.path, &Server::Malloc, None)?)?;
                Ok(held.and_then(|held| held.peak_held).zip(finished(faults)?))
            }
            _ => course.exact(&self.allocator),
        }
    }
}

/// The measures of a lane on one trace.
#[derive(Debug)]
struct Run {
    exact: Option<(u64, u64)>,
    resident: u64,
    times: Vec<f64>,
}

impl Run {
    /// Returns the measurements, with 0 for unknown memory and faults. Use it only if all values
    /// are known, or only times matter.
    fn measured(&self) -> Measured {
        let (memory, faults) = self.exact.unwrap_or_default();
        Measured { times: self.times.clone(), memory, faults }
    }
}

/// How candidates are verified, and with whom they are compared.
pub(super) struct Contest<'c> {
    pub(super) family: Family,
    pub(super) goal: Goal,
    pub(super) cap: Cap,
    /// The library to which settings apply.
    pub(super) ours: Option<&'c Library>,
    pub(super) libraries: &'c [Library],
}

/// Measures these candidates, the best of the search first, on these traces. Returns the first one
/// that gains and keeps the cap, with its results; if none does, the first candidate.
///
/// # Errors
/// If a trace cannot be read, the default or all candidates run out of memory, or a process cannot
/// be run.
pub(super) fn judge<'c>(
    contest: &Contest<'_>,
    candidates: &'c [Candidate],
    traces: &[PathBuf],
) -> anyhow::Result<(&'c Candidate, HeldOut)> {
    let courses = Course::load_all(traces)?;
    let candidates = &*contest.screened(candidates, &courses)?;
    let default = contest.default();
    let mut lanes =
        vec![Lane::new("default", default.clone()), Lane::new("default again", default)];
    lanes.extend(candidates.iter().map(|one| Lane::new("candidate", one.allocator(contest.ours))));
    let rivals_from = lanes.len();
    if contest.family != Family::Preload {
        // Lea's is a crate, which only a Rust program can use.
        lanes.push(Lane::of_server(LEA, Server::Lea));
    }
    lanes.push(Lane::of_server(SYSTEM, Server::Malloc));
    lanes.extend(contest.libraries.iter().map(Lane::of_library));
    let runs = measure(contest.family, &lanes, &courses)?;
    let [Ok(default), Ok(twin), ..] = &runs[..] else { return Err(without_result(&runs)) };
    let rivals = || {
        let rivals = lanes.iter().zip(&runs).skip(rivals_from);
        let standing = |runs: &Runs| Some(standing(runs.as_ref().ok()?, default));
        rivals.map(|(lane, runs)| (lane.name.clone(), standing(runs))).collect()
    };
    let stopped = || runs[rivals_from..].iter().filter_map(|runs| runs.as_ref().err().cloned());
    let judged = candidates.iter().zip(&runs[2..]).filter_map(|(&candidate, runs)| {
        let judged = contest.judged(runs.as_ref().ok()?, (default, twin), &courses, rivals());
        Some((candidate, HeldOut { stopped: stopped().collect(), ..judged }))
    });
    let judged: Vec<_> = judged.collect();
    let gains = judged.iter().position(|(_, one)| one.gained && one.keeps_cap);
    let chosen = judged.into_iter().nth(gains.unwrap_or(0));
    chosen.ok_or_else(|| without_result(&runs))
}

/// The runs of a lane, one for each trace, or why there are none.
type Runs = Result<Vec<Run>, String>;

/// Returns the error about the first lane without a result.
fn without_result(runs: &[Runs]) -> anyhow::Error {
    let why = runs.iter().find_map(|runs| runs.as_ref().err());
    anyhow::anyhow!("no result on the held-out part: {}", why.map_or("no candidate", |why| why))
}

impl Contest<'_> {
    fn default(&self) -> Allocator {
        Candidate::default_of(self.family).allocator(self.ours)
    }

    /// Returns the candidates to compare with the rivals. If an exact measure decides, that is the
    /// first candidate that gains and keeps the cap, or else the first one; otherwise all of them.
    fn screened<'c>(
        &self,
        candidates: &'c [Candidate],
        courses: &[Course],
    ) -> anyhow::Result<Vec<&'c Candidate>> {
        if !self.goal.is_exact() {
            return Ok(candidates.iter().collect());
        }
        let progress = Progress::new(candidates.len() as u64);
        let exact = |allocator: Allocator| {
            let lane = Lane::new("", allocator);
            let run = |course: &Course| lane.run(self.family, course);
            let runs = courses.iter().map(run).collect::<anyhow::Result<Runs>>()?;
            anyhow::Ok(runs.ok().map(|runs| runs.iter().map(Run::measured).collect::<Vec<_>>()))
        };
        let default = exact(self.default())?;
        for candidate in candidates {
            let measured = exact(candidate.allocator(self.ours))?;
            progress.step(1, || format!("held out: {candidate}"));
            if let Some((ours, default)) = measured.as_deref().zip(default.as_deref())
                && self.goal.measure(&Relative::of(ours, default)) < 1.0 - LEAST
                && self.keeps_cap(courses, ours)
            {
                progress.finish();
                return Ok(vec![candidate]);
            }
        }
        progress.finish();
        Ok(candidates.iter().take(1).collect())
    }

    fn keeps_cap(&self, courses: &[Course], measured: &[Measured]) -> bool {
        courses.iter().zip(measured).all(|(course, measured)| {
            self.cap.allows(measured.memory, course.workload.facts.peak_requested)
        })
    }

    /// Returns a candidate's results relative to the default, which is measured twice.
    fn judged(
        &self,
        runs: &[Run],
        (default, twin): (&[Run], &[Run]),
        courses: &[Course],
        rivals: Vec<(String, Option<Standing>)>,
    ) -> HeldOut {
        let measured = |runs: &[Run]| runs.iter().map(Run::measured).collect::<Vec<_>>();
        let (ours, default_measured) = (measured(runs), measured(default));
        let relative = Relative::of(&ours, &default_measured);
        let noise = noise(&ours, &default_measured, &measured(twin));
        let gain = 1.0 - self.goal.measure(&relative);
        HeldOut {
            chosen: standing(runs, default),
            rivals,
            stopped: Vec::new(),
            noise,
            gain,
            gained: gain > self.goal.noise(&noise).max(LEAST),
            keeps_cap: self.keeps_cap(courses, &ours),
        }
    }
}

/// Measures every lane on every course.
fn measure(family: Family, lanes: &[Lane], courses: &[Course]) -> anyhow::Result<Vec<Runs>> {
    let progress = Progress::new(((ROUNDS + 1) * lanes.len()) as u64);
    let mut runs: Vec<Runs> = Vec::new();
    for lane in lanes {
        let run = |course: &Course| lane.run(family, course);
        runs.push(courses.iter().map(run).collect::<anyhow::Result<Runs>>()?);
        progress.step(1, || format!("held out: memory of {}", lane.name));
    }
    let _pinned = Pinned::to_one_cpu();
    for round in 0..ROUNDS {
        for index in turns(lanes.len(), round) {
            let lane = &lanes[index];
            let mut stopped = None;
            for (course, run) in courses.iter().zip(runs[index].iter_mut().flatten()) {
                let library = lane.allocator.library.as_ref();
                match served::time(&course.path, &lane.allocator.server, library)? {
                    Ok(time) => run.times.push(time.as_nanos() as f64),
                    Err(stop) => stopped = Some(lane.stopped(course, stop)?),
                }
            }
            if let Some(why) = stopped {
                runs[index] = Err(why);
            }
            progress.step(1, || format!("held out: timing, round {}", round + 1));
        }
    }
    progress.finish();
    Ok(runs)
}

fn standing(ours: &[Run], default: &[Run]) -> Standing {
    let known = ours.iter().all(|run| run.exact.is_some());
    let pairs = || ours.iter().zip(default);
    let exact = |value: fn((u64, u64)) -> u64| {
        let of = |run: &Run| value(run.exact.unwrap_or_default()) as f64;
        known.then(|| mean_ratio(pairs().map(|(a, b)| (of(a), of(b)))))
    };
    Standing {
        time: mean_ratio(pairs().map(|(a, b)| (median(&a.times), median(&b.times)))),
        memory: exact(|(memory, _)| memory),
        faults: exact(|(_, faults)| faults),
        resident: mean_ratio(pairs().map(|(a, b)| (a.resident as f64, b.resident as f64))),
    }
}

/// Returns the possible errors of ratios to the default, as fractions.
fn noise(ours: &[Measured], default: &[Measured], twin: &[Measured]) -> Relative {
    let Relative { time, memory, faults } = Relative::of(twin, default);
    let off = |ratio: f64| ratio.max(1.0 / ratio) - 1.0;
    let spreads: Vec<f64> = default.iter().chain(ours).map(spread).collect();
    Relative { time: off(time).max(median(&spreads)), memory: off(memory), faults: off(faults) }
}

/// Returns the possible error of the median time, as a fraction of it: half the interquartile
/// range, divided by the root of the number of times.
fn spread(measured: &Measured) -> f64 {
    let mut times = measured.times.clone();
    times.sort_by(f64::total_cmp);
    let quartiles = match &times[..] {
        [] | [_] => 0.0,
        times => times[times.len() * 3 / 4] - times[times.len() / 4],
    };
    quartiles / 2.0 / (times.len() as f64).sqrt() / measured.time().max(1.0)
}
