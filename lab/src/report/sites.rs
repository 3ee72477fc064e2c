//! The allocating call sites, for the page: the most important functions, what their blocks take
//! under each allocator, and the flame graph.

use std::collections::HashMap;
use std::path::Path;

use pagewise_replay::progress::Progress;
use pagewise_replay::workload::Workload;
use serde::Serialize;

use super::flame::Flame;
use crate::competitor::{Competitor, Parameters};
use crate::who::count::{self, At, Figures};
use crate::who::group::{self, By, Group};
use crate::who::name::Names;
use crate::who::waste;

/// Number of functions with their own curve.
const CURVES: usize = 6;

/// The allocating call sites.
#[derive(Debug)]
pub(super) struct Sites {
    /// Functions, by descending bytes live at the peak.
    pub(super) groups: Vec<Group>,
    pub(super) total: Figures,
    /// Whether the recording ended before the program did.
    pub(super) is_prefix: bool,
    /// The allocators that report the lengths of blocks.
    pub(super) told: Vec<&'static str>,
    pub(super) flame: Flame,
    /// For each site of a function with a curve, the index of that function.
    pub(super) series: HashMap<u32, usize>,
}

/// The data for the script: live bytes over time.
#[derive(Debug, Serialize)]
pub(super) struct Areas<'s> {
    name: &'s str,
    live: &'s [u64],
}

impl Sites {
    /// Collects the call sites of a trace with call stacks.
    ///
    /// # Errors
    /// If the trace cannot be read, or an allocator cannot be run.
    pub(super) fn of(
        workload: &Workload,
        path: &Path,
        competitors: &[Competitor],
        parameters: &Parameters,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let counted = count::count(path, At::Peak)?;
        let names = Names::new(&counted, &[], false)?;
        let mut grouped = group::groups(&counted, &names, By::Function)?;
        let replayed = (workload, path);
        let told = waste::add(&mut grouped, &counted, competitors, parameters, replayed, progress)?;
        let mut ranked: Vec<(usize, Group)> = grouped.groups.into_iter().enumerate().collect();
        ranked.sort_by(|(_, a), (_, b)| {
            let key = |group: &Group| (group.figures.live_bytes, group.figures.allocated_bytes);
            key(b).cmp(&key(a)).then_with(|| a.function.cmp(&b.function))
        });
        let curves = ranked.iter().take(CURVES).filter(|(_, one)| one.figures.live_bytes > 0);
        let curve_of: HashMap<usize, usize> =
            curves.enumerate().map(|(curve, (group, _))| (*group, curve)).collect();
        let sites = counted.sites.iter().zip(&grouped.of_site);
        let series =
            sites.filter_map(|((site, _), group)| Some((*site, *curve_of.get(group)?))).collect();
        Ok(Self {
            flame: Flame::of(&counted, &names)?,
            groups: ranked.into_iter().map(|(_, group)| group).collect(),
            total: counted.total,
            is_prefix: counted.is_prefix,
            told,
            series,
        })
    }

    /// Returns the curves of a course that was followed with [`series`](Self::series).
    pub(super) fn areas<'s>(&'s self, live: &'s [Vec<u64>]) -> Vec<Areas<'s>> {
        let names = self.groups.iter().take(live.len().saturating_sub(1));
        let names = names.map(|group| &*group.function).chain(["all others"]);
        names.zip(live).map(|(name, live)| Areas { name, live }).collect()
    }
}
