//! The flame graph: a tree of functions by their callers, each with the requests of the function
//! and of its callees.
//!
//! It can show four figures ([`VIEWS`]). A function too small to be visible in any of them is left
//! out; its space within its caller stays empty.

use std::collections::HashMap;

use indexmap::IndexSet;
use serde::Serialize;

use crate::who::count::{Counted, Figures};
use crate::who::name::Names;

/// A figure, and its name in the script.
type View = (&'static str, fn(&Figures) -> u64);

/// The figures that can be shown.
const VIEWS: [View; 4] = [
    ("peak", |figures| figures.live_bytes),
    ("allocated", |figures| figures.allocated_bytes),
    ("leaked", |figures| figures.leaked_bytes),
    ("temporary", |figures| figures.temporary),
];

/// Maximum number of functions drawn.
const MOST: usize = 4000;
/// The smallest share of a figure that is drawn is 1 / `FINEST`.
const FINEST: u64 = 4000;

/// The nodes of the tree, each after its caller; the first is the root.
#[derive(Debug, Serialize)]
pub(super) struct Flame {
    /// Names of functions and modules.
    texts: Vec<String>,
    /// The caller of each node except the first.
    parents: Vec<usize>,
    /// Indices of `texts`.
    functions: Vec<usize>,
    modules: Vec<Option<usize>>,
    /// Nodes of functions that allocate on behalf of their callers: the allocator's own, and those
    /// of the standard libraries.
    quiet: Vec<usize>,
    /// Name of each view, and its figure for each node.
    views: Vec<(&'static str, Vec<u64>)>,
}

/// A function, called by another.
struct Node {
    parent: usize,
    function: usize,
    module: Option<usize>,
    quiet: bool,
    figures: [u64; VIEWS.len()],
}

impl Flame {
    /// # Errors
    /// If the tree takes more memory than `--memory` allows.
    pub(super) fn of(counted: &Counted, names: &Names<'_>) -> anyhow::Result<Self> {
        let mut texts = IndexSet::new();
        let nodes = pruned(tree(counted, names, &mut texts)?);
        let quiet = nodes.iter().enumerate().filter(|(_, node)| node.quiet);
        let view = |(index, (name, _)): (usize, &View)| {
            (*name, nodes.iter().map(|node| node.figures[index]).collect())
        };
        // Drops the names of pruned functions.
        let mut kept = IndexSet::new();
        let mut keep = |text: usize| kept.insert_full(texts[text].clone()).0;
        Ok(Self {
            parents: nodes.iter().skip(1).map(|node| node.parent).collect(),
            functions: nodes.iter().map(|node| keep(node.function)).collect(),
            modules: nodes.iter().map(|node| node.module.map(&mut keep)).collect(),
            quiet: quiet.map(|(index, _)| index).collect(),
            views: VIEWS.iter().enumerate().map(view).collect(),
            texts: kept.into_iter().collect(),
        })
    }
}

/// Bytes that a node takes, with its entry in the table of children while that grows, and its name.
const BYTES: u64 = 400;

/// Returns the whole tree.
fn tree(
    counted: &Counted,
    names: &Names<'_>,
    texts: &mut IndexSet<String>,
) -> anyhow::Result<Vec<Node>> {
    let mut nodes = vec![Node {
        parent: 0,
        function: texts.insert_full("all".to_owned()).0,
        module: None,
        quiet: false,
        figures: [0; VIEWS.len()],
    }];
    let mut children: HashMap<(usize, usize, Option<usize>), usize> = HashMap::new();
    for (site, figures) in &counted.sites {
        let mut at = 0;
        for place in names.stack(*site).iter().rev() {
            let function = texts.insert_full(place.function.clone()).0;
            let module = place.module.as_ref().map(|module| texts.insert_full(module.clone()).0);
            let next = nodes.len();
            at = *children.entry((at, function, module)).or_insert_with(|| {
                let (parent, quiet) = (at, names.passed_over(place));
                nodes.push(Node { parent, function, module, quiet, figures: [0; VIEWS.len()] });
                next
            });
        }
        for (sum, (_, figure)) in nodes[at].figures.iter_mut().zip(VIEWS) {
            *sum = figure(figures).saturating_add(*sum);
        }
        names.may_keep(nodes.len() as u64 * BYTES, "the tree of calls")?;
    }
    for index in (1..nodes.len()).rev() {
        let figures = nodes[index].figures;
        let parent = nodes[index].parent;
        for (sum, figure) in nodes[parent].figures.iter_mut().zip(figures) {
            *sum = figure.saturating_add(*sum);
        }
    }
    Ok(nodes)
}

/// Returns the visible nodes, at most [`MOST`].
fn pruned(nodes: Vec<Node>) -> Vec<Node> {
    let Some(root) = nodes.first().map(|root| root.figures) else { return nodes };
    let visible = |node: &Node, parts: u64| {
        node.figures.iter().zip(&root).any(|(&figure, &all)| {
            figure > 0 && u128::from(figure) * u128::from(parts) >= u128::from(all)
        })
    };
    let mut parts = FINEST;
    while nodes.iter().filter(|node| visible(node, parts)).count() > MOST {
        parts = parts * 3 / 4;
    }
    let mut kept: Vec<Node> = Vec::new();
    let mut places = vec![0; nodes.len()];
    for (index, mut node) in nodes.into_iter().enumerate() {
        // A caller's figures are at least its callees', so it was kept.
        if index == 0 || visible(&node, parts) {
            places[index] = kept.len();
            node.parent = places[node.parent];
            kept.push(node);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(parent: usize, figures: [u64; VIEWS.len()]) -> Node {
        Node { parent, function: 0, module: None, quiet: false, figures }
    }

    #[test]
    fn functions_too_small_in_every_view_are_left_out() {
        let nodes = vec![
            node(0, [1 << 30, 0, 0, 10]),
            node(0, [7, 0, 0, 0]),
            node(1, [7, 0, 0, 0]),
            node(0, [0, 0, 0, 1]),
            node(3, [0, 0, 0, 1]),
        ];
        let kept = pruned(nodes);
        let found: Vec<_> = kept.iter().map(|node| (node.parent, node.figures[3])).collect();
        assert_eq!(found, [(0, 10), (0, 1), (1, 1)]);
    }

    #[test]
    fn at_most_the_drawable_number_is_kept() {
        let leaf = |_| node(0, [100, 100, 0, 1]);
        let mut nodes = vec![node(0, [900_000, 900_000, 0, 9_000])];
        nodes.extend((0..9_000).map(leaf));
        assert!(pruned(nodes).len() <= MOST);
    }
}
