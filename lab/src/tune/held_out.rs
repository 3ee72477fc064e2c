//! What a choice is worth on data the search has not seen: beside the default, Lea's allocator and
//! the system's, taking turns on one CPU.

use std::path::PathBuf;

use serde::Serialize;

use super::candidate::Candidate;
use super::default;
use super::goal::{Cap, Goal};
use super::measure::{Course, Measured, Relative, finished, median};
use crate::affinity::Pinned;
use crate::compare::{self, Writes};
use crate::competitor::{CAPACITY, LEA, SYSTEM};
use crate::lea::Lea;
use crate::simulate;

/// Timed rounds.
const ROUNDS: usize = 9;
/// Gains below this are none, however exact.
const LEAST: f64 = 0.005;

/// The verdict of the part held out.
#[derive(Debug, Serialize)]
pub(super) struct HeldOut {
    /// Of what was chosen; the default is 1.
    pub(super) chosen: Relative,
    /// Of Lea's allocator and the system's; the default is 1. None of one that ran out of memory.
    pub(super) rivals: Vec<(&'static str, Option<Relative>)>,
    /// What the times of the default and of the default again differ by, as a fraction.
    pub(super) noise: f64,
    /// How much less than the default's the goal's measure is, as a fraction.
    pub(super) gain: f64,
    /// Whether that is more than the noise.
    pub(super) gained: bool,
    /// Whether the cap is kept here, too.
    pub(super) keeps_cap: bool,
}

/// Somebody who takes part.
enum Lane<'c> {
    Candidate(&'c Candidate),
    Lea,
    System,
}

impl Lane<'_> {
    fn exact(&self, course: &Course) -> anyhow::Result<Option<(u64, u64)>> {
        match self {
            Self::Candidate(candidate) => course.exact(candidate),
            Self::Lea => {
                let mut lea = Lea::new(CAPACITY);
                let faults = finished(simulate::faults_at_half(&course.workload, &mut lea))?;
                Ok(faults.map(|faults| (lea.peak_held() as u64, faults)))
            }
            Self::System => {
                let faults = simulate::faults_of_system_at_half(&course.path, &course.workload)?;
                let held = compare::peak_held_by_system(&course.path)?;
                Ok(finished(held)?.flatten().zip(finished(faults)?))
            }
        }
    }

    fn time(&self, course: &Course) -> anyhow::Result<Option<f64>> {
        match self {
            Self::Candidate(candidate) => course.time(candidate),
            Self::Lea => {
                let mut lea = Lea::new(CAPACITY);
                let outcome = finished(course.workload.replay(&mut lea, &mut Writes))?;
                Ok(outcome.map(|outcome| outcome.elapsed.as_nanos() as f64))
            }
            Self::System => {
                let time = finished(compare::time_of_system(&course.path)?)?;
                Ok(time.map(|time| time.as_nanos() as f64))
            }
        }
    }
}

/// Measures what was chosen on these traces.
///
/// # Errors
/// If a trace cannot be read, what was chosen or the default runs out of memory, or the system's
/// allocator cannot be run.
pub(super) fn judge(
    chosen: &Candidate,
    traces: &[PathBuf],
    goal: Goal,
    cap: Cap,
) -> anyhow::Result<HeldOut> {
    let courses = Course::load_all(traces)?;
    let default = default();
    let lanes = [
        Lane::Candidate(chosen),
        Lane::Candidate(&default),
        Lane::Candidate(&default),
        Lane::Lea,
        Lane::System,
    ];
    // By lane and course.
    let mut measured: Vec<Option<Vec<Measured>>> = Vec::new();
    for lane in &lanes {
        let exact = courses.iter().map(|course| {
            let found = lane.exact(course)?;
            Ok(found.map(|(held, faults)| Measured { times: Vec::new(), held, faults }))
        });
        measured.push(exact.collect::<anyhow::Result<Option<Vec<_>>>>()?);
    }
    let _pinned = Pinned::to_one_cpu();
    for round in 0..ROUNDS {
        for place in 0..lanes.len() {
            let index = (round + place) % lanes.len();
            for (course, measured) in courses.iter().zip(measured[index].iter_mut().flatten()) {
                measured.times.extend(lanes[index].time(course)?);
            }
        }
    }
    let out_of_memory = || anyhow::anyhow!("out of memory on what was held out");
    let [Some(chosen), Some(default), Some(twin), lea, system] = &measured[..] else {
        return Err(out_of_memory());
    };
    let relative = Relative::of(chosen, default);
    let twins = Relative::of(twin, default).time;
    let spreads: Vec<f64> = default.iter().chain(chosen).map(spread).collect();
    let noise = (twins.max(1.0 / twins) - 1.0).max(median(&spreads));
    let gain = 1.0 - goal.measure(&relative);
    let keeps = |(course, measured): (&Course, &Measured)| {
        cap.allows(measured.held, course.workload.facts.peak_requested)
    };
    let rival = |measured: &Option<Vec<Measured>>| {
        measured.as_ref().map(|measured| Relative::of(measured, default))
    };
    Ok(HeldOut {
        chosen: relative,
        rivals: vec![(LEA, rival(lea)), (SYSTEM, rival(system))],
        noise,
        gain,
        gained: gain > goal.noise(noise).max(LEAST),
        keeps_cap: courses.iter().zip(chosen).all(keeps),
    })
}

/// What the median of the times may be wrong by, as a fraction of it: half the distance between the
/// quartiles, over the root of their number.
fn spread(measured: &Measured) -> f64 {
    let mut times = measured.times.clone();
    times.sort_by(f64::total_cmp);
    let quartiles = match &times[..] {
        [] | [_] => 0.0,
        times => times[times.len() * 3 / 4] - times[times.len() / 4],
    };
    quartiles / 2.0 / (times.len() as f64).sqrt() / measured.time().max(1.0)
}
