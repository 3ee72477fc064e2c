//! A search from the traces to the result: [`Plan`].

use std::path::PathBuf;

use pagewise_replay::input;
use pagewise_replay::usage::Usage;

use super::candidate::{Candidate, Family};
use super::emit;
use super::found::{Found, Tuned};
use super::goal::{Cap, Goal};
use super::held_out::{self, Contest};
use super::program::{InProgram, Program};
use super::search::Search;
use super::split;
use crate::system::library::Library;

/// What to search, and how.
pub(super) struct Plan<'p> {
    pub(super) traces: &'p [PathBuf],
    /// Empty: the second halves.
    pub(super) held_out: &'p [PathBuf],
    pub(super) families: Vec<Family>,
    /// The library to which settings apply.
    pub(super) ours: Option<&'static Library>,
    pub(super) goal: Goal,
    pub(super) cap: Cap,
    /// Number of candidates in each family.
    pub(super) candidates: usize,
    pub(super) seed: u64,
    pub(super) libraries: Vec<Library>,
    pub(super) not_compared: Vec<String>,
    /// The program whose own runs decide.
    pub(super) program: Option<Program<'p>>,
}

impl Plan<'_> {
    /// Searches, measures the choice of each family, and writes the code.
    ///
    /// # Errors
    /// If a trace cannot be read or split, no candidate keeps the cap, or a process cannot be run.
    pub(super) fn carry_out(self) -> anyhow::Result<Tuned> {
        // Report faults of any trace before measuring the first.
        let mut threads = 0;
        for path in self.traces.iter().chain(self.held_out) {
            threads = input::open(path)?.header().threads.max(threads);
        }
        let (searched, held_out) = if self.held_out.is_empty() {
            split::halves(self.traces)?
        } else {
            (self.traces.to_vec(), self.held_out.to_vec())
        };
        let found = self.families.iter().map(|&family| self.search(family, &searched, &held_out));
        let found = found.collect::<anyhow::Result<Vec<_>>>()?;
        let codes = found.iter().filter(|found| !found.code.is_empty());
        let codes: Vec<_> = codes.map(|found| (found.family, &*found.code)).collect();
        Ok(Tuned {
            traces: self.traces.iter().map(|path| input::trace_name(path)).collect(),
            argument: self.traces.first().map_or_else(String::new, |path| input::argument(path)),
            goal: self.goal,
            seed: self.seed,
            second_halves: self.held_out.is_empty(),
            threads,
            code: emit::file(&codes),
            families: found,
            not_compared: self.not_compared,
        })
    }

    fn search(
        &self,
        family: Family,
        searched: &[PathBuf],
        held_out: &[PathBuf],
    ) -> anyhow::Result<Found> {
        let mut search = Search::new(
            (family, self.ours),
            searched,
            self.goal,
            self.cap,
            self.seed,
            self.candidates,
        )?;
        search.run()?;
        let candidates_to_verify = search.candidates_to_verify();
        if candidates_to_verify.is_empty() {
            return Err(Usage(format!(
                "no candidate stays within {}: the least {} is {}, and the peak requested is {}; \
                 raise the cap, or try more --candidates",
                self.cap,
                family.memory(),
                search.least_memory(),
                search.peak_requested()
            ))
            .into());
        }
        let (goal, cap, ours) = (self.goal, self.cap, self.ours);
        let contest = Contest { family, goal, cap, ours, libraries: &self.libraries };
        let (chosen, held_out) = held_out::judge(&contest, &candidates_to_verify, held_out)?;
        let mut found = Found {
            family,
            measured: search.measured(),
            front: search.front(chosen),
            chosen: chosen.to_string(),
            held_out,
            program: self.in_program(chosen)?,
            code: String::new(),
        };
        if found.gained() {
            found.code = emit::code(chosen, self.traces, goal, ours);
        }
        Ok(found)
    }

    /// Measures the program itself with the choice, if there is a program, and the choice can be
    /// preloaded.
    fn in_program(&self, chosen: &Candidate) -> anyhow::Result<Option<InProgram>> {
        let Some((program, ours)) = self.program.as_ref().zip(self.ours) else { return Ok(None) };
        let default = Candidate::default_of(chosen.family());
        let libraries = chosen.preloaded(ours).zip(default.preloaded(ours));
        libraries
            .map(|(chosen, default)| {
                program.measure(self.goal, [&chosen, &default], &self.libraries)
            })
            .transpose()
    }
}
