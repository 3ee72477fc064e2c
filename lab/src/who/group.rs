//! Groups call sites by the function, line or stack that allocates.

use std::collections::{BTreeMap, HashMap};

use pagewise_replay::units::thousands;
use serde::Serialize;

use super::count::{Counted, Figures};
use super::name::{Names, Place};

/// What sites are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
    /// The function that allocates
    Function,
    /// The line that allocates
    Line,
    /// The whole call stack
    Stack,
}

/// A group of sites.
#[derive(Debug, Serialize)]
pub(crate) struct Group {
    pub(crate) function: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) module: Option<String>,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// Number of distinct call stacks.
    pub(crate) stacks: u64,
    /// The stack with the most live bytes, innermost function first.
    pub(crate) stack: Vec<String>,
    /// The sizes of most leaked blocks, and their numbers.
    pub(crate) leaked_sizes: Vec<(u64, u64)>,
    /// The bytes that the live blocks take, for each requested allocator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) taken: BTreeMap<&'static str, Taken>,
    #[serde(skip)]
    heaviest: (u64, u64),
    /// Bytes of the stack.
    #[serde(skip)]
    kept: u64,
}

/// The memory that the live blocks of a group take under an allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Taken {
    /// Bytes of the blocks, at least the requested ones.
    pub(crate) bytes: u64,
    /// The requested size with the most bytes beyond the requested ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worst: Option<Worst>,
}

/// Blocks of one requested size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Worst {
    pub(crate) requested: u64,
    /// Bytes of the block for this size.
    pub(crate) block: u64,
    pub(crate) blocks: u64,
}

impl Worst {
    /// Formats it as `1,200 × 129 B in 144 B`.
    pub(crate) fn formatted(&self) -> String {
        let Self { requested, block, blocks } = *self;
        let [requested, block, blocks] = [requested, block, blocks].map(thousands);
        format!("{blocks} × {requested} B in {block} B")
    }
}

/// All groups, and the group of each site in [`Counted::sites`].
pub(crate) struct Groups {
    pub(crate) groups: Vec<Group>,
    pub(crate) of_site: Vec<usize>,
}

/// Number of leaked sizes shown per group.
const SIZES: usize = 3;

/// Returns every group.
///
/// # Errors
/// If the stacks to remember take more memory than `--memory` allows.
pub(crate) fn groups(counted: &Counted, names: &Names<'_>, by: By) -> anyhow::Result<Groups> {
    let mut indices: HashMap<Vec<Place>, usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut of_site = Vec::with_capacity(counted.sites.len());
    let mut kept = 0;
    for (site, figures) in &counted.sites {
        let stack = names.stack(*site);
        let bytes: u64 = stack.iter().map(Place::bytes).sum();
        let caller = names.caller(&stack).clone();
        let key = match by {
            By::Function => vec![Place { source: None, ..caller.clone() }],
            By::Line => vec![caller.clone()],
            By::Stack => stack.clone(),
        };
        let index = *indices.entry(key).or_insert(groups.len());
        if index == groups.len() {
            groups.push(Group::new(&caller));
        }
        of_site.push(index);
        let group = &mut groups[index];
        if group.stacks == 0 && by == By::Stack {
            // Its key.
            kept += bytes;
        }
        group.figures.add(figures);
        group.stacks += 1;
        let weight = (figures.live_bytes, figures.allocated_bytes);
        if group.stack.is_empty() || weight > group.heaviest {
            group.heaviest = weight;
            kept = kept - core::mem::replace(&mut group.kept, bytes) + bytes;
            names.may_keep(kept, "the call stacks")?;
            group.stack = stack.iter().map(Place::to_string).collect();
            // A function is shown with the line of its heaviest stack.
            group.locate(caller);
        }
    }
    let mut grouped = Groups { groups, of_site };
    grouped.add_leaked_sizes(counted);
    Ok(grouped)
}

impl Group {
    /// Returns the group of this caller, without sites yet.
    fn new(caller: &Place) -> Self {
        let mut group = Self {
            function: caller.function.clone(),
            file: None,
            line: None,
            module: caller.module.clone(),
            figures: Figures::default(),
            stacks: 0,
            stack: Vec::new(),
            leaked_sizes: Vec::new(),
            taken: BTreeMap::new(),
            heaviest: (0, 0),
            kept: 0,
        };
        group.locate(caller.clone());
        group
    }

    /// Takes over file and line of a caller, if they are known.
    fn locate(&mut self, caller: Place) {
        if let Some((file, line)) = caller.source {
            (self.file, self.line) = (Some(file), Some(line).filter(|&line| line > 0));
        }
    }
}

impl Groups {
    /// Adds to each group the sizes of most leaked bytes.
    fn add_leaked_sizes(&mut self, counted: &Counted) {
        let Self { groups, of_site } = self;
        let mut sizes: Vec<HashMap<u64, u64>> = groups.iter().map(|_| HashMap::new()).collect();
        let sites = counted.sites.iter().zip(of_site);
        let group_of: HashMap<u32, usize> =
            sites.map(|((site, _), group)| (*site, *group)).collect();
        for (&(site, size), &count) in &counted.leaked_sizes {
            *sizes[group_of[&site]].entry(size).or_default() += count;
        }
        for (group, sizes) in groups.iter_mut().zip(sizes) {
            let mut sizes: Vec<(u64, u64)> = sizes.into_iter().collect();
            sizes.sort_by_key(|&(size, count)| {
                std::cmp::Reverse((size.saturating_mul(count), size))
            });
            sizes.truncate(SIZES);
            group.leaked_sizes = sizes;
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.function)?;
        match &self.source {
            Some((file, 0)) => write!(f, " at {file}"),
            Some((file, line)) => write!(f, " at {file}:{line}"),
            None => Ok(()),
        }
    }
}
