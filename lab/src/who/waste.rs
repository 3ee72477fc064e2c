//! Internal fragmentation: the bytes that live blocks take under allocators, by the call site that
//! requested them.

use std::collections::HashMap;
use std::path::Path;

use pagewise_replay::progress::Progress;
use pagewise_replay::workload::Workload;

use super::count::Counted;
use super::group::{Groups, Taken, Worst};
use crate::competitor::{Competitor, Parameters};
use crate::lengths;

/// Replays the trace under each of these allocators up to the chosen moment, and adds to each group
/// the memory that its blocks take there. Returns the names of the allocators that report it.
///
/// # Errors
/// If the trace cannot be read, or an allocator cannot be run.
pub(crate) fn add(
    grouped: &mut Groups,
    counted: &Counted,
    competitors: &[Competitor],
    parameters: &Parameters,
    (workload, path): (&Workload, &Path),
    progress: &Progress,
) -> anyhow::Result<Vec<&'static str>> {
    let mut told = Vec::new();
    for competitor in competitors {
        let at = counted.at_operation;
        let lengths = lengths::of(competitor, parameters, workload, path, at)?;
        progress.step(1, || format!("{}: blocks under {}", workload.name, competitor.name()));
        let Some(lengths) = lengths else { continue };
        anyhow::ensure!(
            lengths.len() == counted.live.len(),
            "{} has {} blocks where the trace has {}",
            competitor.name(),
            lengths.len(),
            counted.live.len()
        );
        told.push(competitor.name());
        for (group, taken) in taken(grouped, counted, &lengths) {
            grouped.groups[group].taken.insert(competitor.name(), taken);
        }
    }
    Ok(told)
}

/// Returns the memory that each group with live blocks takes, given the blocks' lengths.
fn taken(grouped: &Groups, counted: &Counted, lengths: &[u64]) -> HashMap<usize, Taken> {
    // Number of blocks by group, requested size and length.
    let mut alike: HashMap<(usize, u64, u64), u64> = HashMap::new();
    for (block, &length) in counted.live.iter().zip(lengths) {
        let group = grouped.of_site[block.index as usize];
        *alike.entry((group, block.size, length)).or_default() += 1;
    }
    let mut all: HashMap<usize, Taken> = HashMap::new();
    for (&(group, requested, block), &blocks) in &alike {
        let taken = all.entry(group).or_default();
        taken.bytes += block * blocks;
        let this = Worst { requested, block, blocks };
        let more = |worst: &Worst| worst.beyond() < this.beyond();
        if this.beyond().0 > 0 && taken.worst.as_ref().is_none_or(more) {
            taken.worst = Some(this);
        }
    }
    all
}

impl Worst {
    /// Returns a sort key: the bytes beyond the requested ones, then two tie-breakers.
    fn beyond(&self) -> (u64, u64, u64) {
        let beyond = self.block.saturating_sub(self.requested);
        (beyond * self.blocks, self.requested, self.block)
    }
}
