//! The search: generations of candidates, each bred from the best so far, then finals by halving.
//!
//! 1. *Model.* Of three random candidates, the one whose pages are expected to take least is
//!    measured (not for speed, about which the model knows nothing).
//! 2. *Generations.* Each candidate is replayed twice on all cores: once for its memory and page
//!    faults, once for its time. The next generation consists of the best and the front, each with
//!    a few parameters changed.
//! 3. *Finals.* The best are timed alone on one CPU, taking turns. The slower half is dropped after
//!    each set of rounds, so that the closest rivals are timed most (successive halving).
//!
//! A seed reproduces the same candidates only as long as the same ones win, which depends on times.

use pagewise::sizemap::Demand;
use pagewise_replay::output;
use pagewise_replay::progress::Progress;
use pagewise_replay::system::affinity::Pinned;
use pagewise_replay::timing::turns;
use pagewise_replay::units;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::candidate::{Candidate, Family};
use super::found::OnFront;
use super::goal::{Cap, Goal};
use super::held_out::LEAST;
use super::measure::{Course, Measured, Relative};
use crate::system::library::Library;
use crate::{demand, pareto};
use pagewise_replay::text::paragraph;

/// Number of generations, the first included.
const GENERATIONS: usize = 4;
/// Number of candidates in the finals.
const FINALISTS: usize = 12;
/// Timed rounds between two halvings.
const ROUNDS: usize = 4;
/// Maximum number of candidates to verify: if times decide, and if an exact measure does.
const PUT_FORWARD: (usize, usize) = (3, 12);

/// A candidate and its measures, per course; `None` if it ran out of memory.
#[derive(Debug)]
struct Trial {
    candidate: Candidate,
    measured: Option<Vec<Measured>>,
}

/// A running search.
#[derive(Debug)]
pub(super) struct Search {
    family: Family,
    /// The library to which settings apply.
    ours: Option<&'static Library>,
    courses: Vec<Course>,
    demand: Vec<Demand>,
    goal: Goal,
    cap: Cap,
    rng: ChaCha8Rng,
    candidates: usize,
    /// The first is the default.
    trials: Vec<Trial>,
    progress: Progress,
}

impl Search {
    /// Returns a search over these traces.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(super) fn new(
        (family, ours): (Family, Option<&'static Library>),
        traces: &[std::path::PathBuf],
        goal: Goal,
        cap: Cap,
        seed: u64,
        candidates: usize,
    ) -> anyhow::Result<Self> {
        let mut demand = Vec::new();
        for path in traces {
            demand.extend(demand::of_trace(path)?);
        }
        demand.sort_by_key(|one| one.size);
        Ok(Self {
            family,
            ours,
            courses: Course::load_all(traces)?,
            demand,
            goal,
            cap,
            rng: ChaCha8Rng::seed_from_u64(seed),
            candidates,
            trials: Vec::new(),
            progress: Progress::new(candidates as u64 + 1),
        })
    }

    /// Measures all candidates.
    ///
    /// # Errors
    /// If a trace can no longer be read.
    pub(super) fn run(&mut self) -> anyhow::Result<()> {
        let mut first = Candidate::usual(self.family, &self.demand);
        let share = self.candidates.div_ceil(GENERATIONS).max(first.len());
        while first.len() < share {
            let drawn = self.draw();
            if !first.contains(&drawn) {
                first.push(drawn);
            }
        }
        self.measure(first)?;
        for generation in 2..=GENERATIONS {
            let left = self.candidates.saturating_sub(self.trials.len());
            let next = self.breed(left / (GENERATIONS + 1 - generation));
            self.measure(next)?;
            self.report_progress(generation);
        }
        self.finals()?;
        self.progress.finish();
        Ok(())
    }

    /// Returns the number of candidates measured.
    pub(super) fn measured(&self) -> usize {
        self.trials.len()
    }

    /// Returns the candidates to verify, best first: those that keep the cap and do better than the
    /// default; if none does, the default; empty if nothing keeps the cap. For the goal of memory
    /// they are the [leanest](leanest_first), whatever their time.
    pub(super) fn candidates_to_verify(&self) -> Vec<Candidate> {
        let mut order = self.ranking();
        if self.goal == Goal::Memory {
            leanest_first(&mut order, |index| {
                self.relative(index).map_or(f64::NAN, |one| one.memory)
            });
        }
        let before = order.iter().position(|&index| index == 0).unwrap_or(order.len());
        let most = if self.goal.is_exact() { PUT_FORWARD.1 } else { PUT_FORWARD.0 };
        order.truncate(before.clamp(1, most));
        order.into_iter().map(|index| self.trials[index].candidate.clone()).collect()
    }

    /// Returns the least memory that any candidate took, in words.
    pub(super) fn least_memory(&self) -> String {
        let most =
            |trial: &Trial| trial.measured.as_ref()?.iter().map(|measured| measured.memory).max();
        let least = self.trials.iter().filter_map(most).min();
        least.map_or_else(|| "unknown: all ran out of memory".to_owned(), units::bytes)
    }

    /// Returns the largest requested peak of all traces, in words.
    pub(super) fn peak_requested(&self) -> String {
        let requested = self.courses.iter().map(|course| course.workload.facts.peak_requested);
        units::bytes(requested.max().unwrap_or(0))
    }

    /// Returns the Pareto front, by time.
    pub(super) fn front(&self, chosen: &Candidate) -> Vec<OnFront> {
        let mut front: Vec<_> = self
            .front_indices()
            .into_iter()
            .filter_map(|index| {
                let candidate = &self.trials[index].candidate;
                Some(OnFront {
                    candidate: candidate.to_string(),
                    relative: self.relative(index)?,
                    chosen: candidate == chosen,
                })
            })
            .collect();
        front.sort_by(|a, b| a.relative.time.total_cmp(&b.relative.time));
        front
    }

    /// Returns the best of three random candidates by the model.
    fn draw(&mut self) -> Candidate {
        let Self { family, rng, demand, goal, .. } = self;
        let drawn = Candidate::random(*family, rng, demand);
        let Some(expected) = drawn.expected_bytes(demand) else { return drawn };
        if *goal == Goal::Speed {
            return drawn;
        }
        let mut best = (expected, drawn);
        for _ in 0..2 {
            let other = Candidate::random(*family, rng, demand);
            match other.expected_bytes(demand) {
                Some(expected) if expected < best.0 => best = (expected, other),
                _ => {}
            }
        }
        best.1
    }

    /// Makes new candidates from the best and the front.
    fn breed(&mut self, number: usize) -> Vec<Candidate> {
        let mut parents = self.ranking();
        parents.truncate((self.trials.len() / 6).max(2));
        parents.extend(self.front_indices());
        let mut bred: Vec<Candidate> = Vec::new();
        // No candidate is measured twice; there may be nothing new to find.
        for _ in 0..number * 20 {
            if bred.len() == number || parents.is_empty() {
                break;
            }
            let parent = parents[self.rng.random_range(0..parents.len())];
            let changes = self.rng.random_range(1..=3);
            let mut child = self.trials[parent].candidate.clone();
            for _ in 0..changes {
                child = child.changed(&mut self.rng, &self.demand);
            }
            let known = self.trials.iter().any(|trial| trial.candidate == child);
            if !known && !bred.contains(&child) {
                bred.push(child);
            }
        }
        bred
    }

    /// Measures these candidates on all cores.
    fn measure(&mut self, candidates: Vec<Candidate>) -> anyhow::Result<()> {
        let one = |candidate: Candidate| {
            let (allocator, mut measured) = (candidate.allocator(self.ours), Vec::new());
            for course in &self.courses {
                let exact = course.exact(&allocator)?;
                let time = course.time(&allocator)?;
                measured.push(exact.zip(time).map(|((memory, faults), time)| Measured {
                    times: vec![time],
                    memory,
                    faults,
                }));
            }
            self.progress.step(1, || candidate.to_string());
            anyhow::Ok(Trial { candidate, measured: measured.into_iter().collect() })
        };
        let trials = candidates.into_par_iter().map(one).collect::<Result<Vec<_>, _>>()?;
        self.trials.extend(trials);
        Ok(())
    }

    /// Times the best candidates alone, the closest ones most.
    fn finals(&mut self) -> anyhow::Result<()> {
        let _pinned = Pinned::to_one_cpu();
        // Drop times taken while other replays ran.
        let mut left = self.ranking();
        left.truncate(FINALISTS);
        let mut takes_part = left.clone();
        takes_part.extend(self.front_indices());
        takes_part.push(0);
        takes_part.sort_unstable();
        takes_part.dedup();
        for &index in &takes_part {
            for measured in self.trials[index].measured.iter_mut().flatten() {
                measured.times.clear();
            }
        }
        self.time(&takes_part)?;
        while left.len() > 1 {
            let mut ranking = self.ranking();
            ranking.retain(|index| left.contains(index));
            left = ranking;
            left.truncate(left.len().div_ceil(2));
            let mut next = left.clone();
            next.push(0);
            next.sort_unstable();
            next.dedup();
            self.time(&next)?;
            if left.len() <= 2 {
                break;
            }
        }
        Ok(())
    }

    /// Times some rounds of these trials, which take turns. One that no longer finishes any replay
    /// of a trace is as one that ran out of memory.
    fn time(&mut self, indices: &[usize]) -> anyhow::Result<()> {
        for round in 0..ROUNDS {
            for place in turns(indices.len(), round) {
                let Trial { candidate, measured } = &mut self.trials[indices[place]];
                let allocator = candidate.allocator(self.ours);
                for (course, measured) in self.courses.iter().zip(measured.iter_mut().flatten()) {
                    measured.times.extend(course.time(&allocator)?);
                }
            }
        }
        for &index in indices {
            let measured = &mut self.trials[index].measured;
            // Without times it would count as the fastest.
            if measured.iter().flatten().any(|measured| measured.times.is_empty()) {
                *measured = None;
            }
        }
        Ok(())
    }

    /// Returns the measures relative to the default's.
    fn relative(&self, index: usize) -> Option<Relative> {
        let default = self.trials.first()?.measured.as_ref()?;
        Some(Relative::of(self.trials[index].measured.as_ref()?, default))
    }

    /// Returns those that keep the cap, best first.
    fn ranking(&self) -> Vec<usize> {
        let keeps = |measured: &[Measured]| {
            self.courses.iter().zip(measured).all(|(course, measured)| {
                self.cap.allows(measured.memory, course.workload.facts.peak_requested)
            })
        };
        let mut scores: Vec<(usize, f64)> = (0..self.trials.len())
            .filter(|&index| self.trials[index].measured.as_deref().is_some_and(keeps))
            .filter_map(|index| Some((index, self.goal.score(&self.relative(index)?))))
            .collect();
        scores.sort_by(|a, b| a.1.total_cmp(&b.1));
        scores.into_iter().map(|(index, _)| index).collect()
    }

    /// Returns the candidates that no other dominates in time, memory and faults.
    fn front_indices(&self) -> Vec<usize> {
        let cost = |index| self.relative(index).map_or([f64::NAN; 3], |one| one.cost());
        let costs: Vec<_> = (0..self.trials.len()).map(cost).collect();
        pareto::front(&costs)
    }

    /// Reports the search's progress on stderr.
    fn report_progress(&self, generation: usize) {
        let front = self.front_indices().len();
        let Some(&best) = self.ranking().first() else { return };
        let Some(relative) = self.relative(best) else { return };
        self.progress.above(|| {
            output::say(&paragraph(&format!(
                "{}: generation {generation} of {GENERATIONS}: {} measured, {front} on the front; \
                 best so far: {} (default = 1: time {:.2}, {} {:.2}, faults {:.2})",
                self.family.title(),
                self.trials.len(),
                self.trials[best].candidate,
                relative.time,
                self.family.memory(),
                relative.memory,
                relative.faults
            )));
        });
    }
}

/// Sorts trials, best first, by memory. Those that take next to no more than the leanest, a
/// difference below [`LEAST`], stay in their order: the leanest may take much more time. The
/// default (0) comes first among equals.
fn leanest_first(order: &mut [usize], memory: impl Fn(usize) -> f64) {
    let least = order.iter().map(|&index| memory(index)).fold(f64::INFINITY, f64::min);
    let key = |index: usize| memory(index).max(least * (1.0 + LEAST));
    order.sort_by(|&a, &b| key(a).total_cmp(&key(b)).then((b == 0).cmp(&(a == 0))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_without_times_is_not_the_fastest() {
        let trial = |times: &[f64]| Trial {
            candidate: Candidate::default_of(Family::Arena),
            measured: Some(vec![Measured { times: times.to_vec(), memory: 10, faults: 10 }]),
        };
        let mut search = Search {
            family: Family::Arena,
            ours: None,
            courses: Vec::new(),
            demand: Vec::new(),
            goal: Goal::Speed,
            cap: Cap::None,
            rng: ChaCha8Rng::seed_from_u64(1),
            candidates: 3,
            trials: vec![trial(&[100.0]), trial(&[]), trial(&[90.0])],
            progress: Progress::new(1),
        };
        search.time(&[0, 1, 2]).expect("there is nothing to time");
        assert_eq!(search.ranking(), [2, 0]);
        assert_eq!(search.front_indices(), [2]);
    }

    /// The leanest may take much more time to save next to nothing.
    #[test]
    fn of_those_about_as_lean_the_best_comes_first() {
        let memory = [1.0, 0.840, 0.821, 0.824, 0.821];
        let mut order = [1, 3, 2, 4, 0];
        leanest_first(&mut order, |index| memory[index]);
        assert_eq!(order, [3, 2, 4, 1, 0]);
    }

    #[test]
    fn the_default_comes_first_among_equals() {
        let memory = [0.821, 0.9, 0.82];
        let mut order = [1, 2, 0];
        leanest_first(&mut order, |index| memory[index]);
        assert_eq!(order, [0, 2, 1]);
    }
}
