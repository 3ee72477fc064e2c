//! Computes the required answer of an allocation in the simplest way: from the walk and the live
//! blocks, looking at all of them. Where a strategy's paper leaves the choice open, it predicts
//! nothing.

use std::collections::BTreeMap;

use pagewise::walk::SpanKind;

use crate::heap::{Heap, Operation};
use crate::room::Bounds;

/// Page size of the paged strategies, and the largest size served from pages.
pub(crate) const PAGE: usize = 512;
pub(crate) const LARGEST: usize = 256;

/// All strategies but Nielsen's round sizes up to this unit.
const UNIT: usize = 16;

/// Bytes of a boundary tag.
const TAG: usize = 4;

/// Which of several fitting free blocks is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Choice {
    /// Any of them.
    Any,
    /// The lowest.
    Lowest,
    /// The smallest; of equal ones, the lowest.
    Smallest,
    /// The largest; of equal ones, the lowest.
    Largest,
}

/// Which page of a class becomes the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Page {
    Any,
    MostFree,
    LeastFree,
    LastFreed,
}

/// Which free block of a class is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Chain {
    /// LIFO; a new page is handed out from its lowest block.
    Stack,
    /// FIFO; a new page is handed out from its lowest block.
    Queue,
    /// LIFO, with Kingsley's sizes: powers of two less a tag.
    Kingsley,
}

/// A naive model of a strategy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Naive {
    /// Predicts nothing.
    Unspecified,
    /// A request is served if and only if a run of free memory holds it, coalesced as far as
    /// possible, with the memory left in the source. Boundary tags separate free blocks.
    Fit(Choice),
    /// As `Fit`, with a tolerance of one header.
    Roughly,
    /// Blocks without tags, each at the lowest address that fits.
    Lowest,
    /// Buddies: blocks of powers of two at multiples of their lengths.
    Buddies,
    /// Pages of equal blocks, filled one at a time. An empty page that was the current one of its
    /// class may be given up when another request finds no memory; the current one is then unknown.
    Paged { page: Page, current: BTreeMap<usize, Option<usize>>, freed: Vec<usize>, exact: bool },
    /// One free list per size class.
    Chained { chain: Chain, lists: BTreeMap<usize, Vec<usize>>, exact: bool },
    /// Pages of equal blocks over a heap, with tags or without: a request is served if free memory
    /// outside pages in use holds it, and refused if no memory holds it at all.
    Above { has_tags: bool },
    /// Freed blocks are never reused.
    Never { used: Vec<usize> },
}

/// The required answer of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Prediction {
    Unknown,
    Refused,
    Served,
    At(usize),
    /// In one of these pages.
    In(Vec<usize>),
    /// Refused, or at an address not among these.
    NotAt(Vec<usize>),
}

/// The result of an operation.
pub(crate) struct Step {
    pub(crate) refused: bool,
    pub(crate) predicted: bool,
}

fn page_of(offset: usize) -> usize {
    offset / PAGE * PAGE
}

impl Naive {
    pub(crate) fn paged(page: Page) -> Self {
        Self::Paged { page, current: BTreeMap::new(), freed: Vec::new(), exact: true }
    }

    pub(crate) fn chained(chain: Chain) -> Self {
        Self::Chained { chain, lists: BTreeMap::new(), exact: true }
    }

    /// Performs an operation on the heap, which must answer as predicted.
    pub(crate) fn step(&mut self, heap: &mut Heap, operation: Operation) -> Step {
        let predicted = match operation {
            Operation::Allocate { size } => self.predict(heap, heap.sizes[size as usize]),
            _ => Prediction::Unknown,
        };
        let len = match operation {
            Operation::Free { block } => heap.nth(block).1.len,
            _ => 0,
        };
        let done = heap.perform(operation);
        let Bounds { start, .. } = Bounds::current();
        let kept = match (&predicted, done) {
            (Prediction::Unknown, _) => true,
            (Prediction::Refused, done) => done.is_err(),
            (Prediction::NotAt(used), done) => done.is_err() || !used.contains(&done.unwrap_or(0)),
            (_, Err(_)) => false,
            (Prediction::Served, Ok(_)) => true,
            (Prediction::At(at), Ok(offset)) => offset == *at,
            (Prediction::In(pages), Ok(offset)) => pages.contains(&page_of(offset - start)),
        };
        assert!(kept, "{self:?} predicts {predicted:?}, not {done:?}");
        if let Operation::Allocate { .. } = operation {
            self.give_up(heap, done.ok());
        }
        match (operation, done) {
            (Operation::Allocate { .. }, Ok(offset)) => self.served(heap, offset),
            (Operation::Free { .. }, Ok(offset)) => self.freed(offset, len),
            (Operation::Resize { .. }, _) => self.resized(),
            _ => {}
        }
        Step { refused: done.is_err(), predicted: predicted != Prediction::Unknown }
    }

    fn predict(&self, heap: &Heap, (size, align): (usize, usize)) -> Prediction {
        match self {
            Self::Unspecified => Prediction::Unknown,
            Self::Fit(choice) => fit(heap, *choice, size, align),
            Self::Roughly => {
                let held = |size| runs(heap).any(|run| holds(run, size, align));
                let gap = if align > UNIT { 2 * align } else { 0 };
                either(held(size + 2 * UNIT + gap), held(size))
            }
            Self::Above { has_tags } => {
                let bounds = Bounds::current();
                let end = if *has_tags { last_tag() } else { bounds.base() + bounds.low };
                let held = runs_to(heap, end).any(|run| holds(run, size, align));
                either(above(heap, size + UNIT, align), held)
            }
            Self::Lowest => lowest(heap, size.next_multiple_of(UNIT), align),
            Self::Buddies => buddies(heap, size.max(align).next_power_of_two()),
            Self::Paged { page, current, freed, exact: true } if size <= LARGEST => {
                paged(heap, *page, current, freed, size)
            }
            Self::Chained { chain, lists, exact: true } => {
                let class = match chain {
                    // The position of an over-aligned block is not defined.
                    Chain::Kingsley if align > UNIT => return Prediction::Unknown,
                    Chain::Kingsley => (size + TAG).next_power_of_two() - TAG,
                    _ if size > LARGEST => return Prediction::Unknown,
                    _ => class(size),
                };
                let list = lists.get(&class).map_or(&[][..], |list| list);
                let next = if *chain == Chain::Queue { list.first() } else { list.last() };
                next.map_or(Prediction::Unknown, |&at| Prediction::At(at))
            }
            Self::Never { used } => Prediction::NotAt(used.clone()),
            _ => Prediction::Unknown,
        }
    }

    /// Notes which current pages may have been given up by an allocation with this result.
    fn give_up(&mut self, heap: &Heap, served: Option<usize>) {
        let Self::Paged { current, .. } = self else { return };
        let in_page = |page: usize, class: usize| {
            heap.model.live.range(page..page + PAGE).filter(|(_, block)| block.len == class).count()
        };
        // Only a request for a page, or for more, looks for memory.
        if let Some(offset) = served {
            let (class, page) = (heap.model.live[&offset].len, page_of(offset));
            let is_old = current.get(&class) == Some(&Some(page)) || in_page(page, class) > 1;
            if class <= LARGEST && is_old {
                return;
            }
        }
        for (&class, current) in current {
            *current = current.filter(|&page| in_page(page, class) > 0);
        }
    }

    fn served(&mut self, heap: &Heap, offset: usize) {
        let class = heap.model.live[&offset].len;
        match self {
            Self::Paged { current, freed, .. } if class <= LARGEST => {
                current.insert(class, Some(page_of(offset)));
                freed.retain(|&page| page != page_of(offset));
            }
            Self::Chained { chain, lists, .. } => {
                let list = lists.entry(class).or_default();
                match list.iter().position(|&at| at == offset) {
                    Some(index) => drop(list.remove(index)),
                    None if class > LARGEST || *chain == Chain::Kingsley => {}
                    None => {
                        let page = page_of(offset);
                        let all = (0..PAGE / class).map(|index| page + index * class);
                        list.extend(all.filter(|&at| at != offset));
                        if *chain == Chain::Stack {
                            list.reverse();
                        }
                    }
                }
            }
            Self::Never { used } if class <= LARGEST => used.push(offset),
            _ => {}
        }
    }

    fn freed(&mut self, offset: usize, len: usize) {
        match self {
            Self::Paged { current, freed, .. } if len <= LARGEST => {
                let page = page_of(offset);
                freed.retain(|&other| other != page);
                if current.get(&len) != Some(&Some(page)) {
                    freed.push(page);
                }
            }
            // Lengths that no page serves are never requested, so their lists do no harm.
            Self::Chained { lists, .. } => {
                lists.entry(len).or_default().push(offset);
            }
            _ => {}
        }
    }

    /// Lists of pages and blocks may have changed in ways that are not modelled.
    fn resized(&mut self) {
        match self {
            Self::Paged { exact, .. } | Self::Chained { exact, .. } => *exact = false,
            _ => {}
        }
    }
}

/// Returns where the last tag is once the source has no memory left: at the end of the extent.
fn last_tag() -> usize {
    let bounds = Bounds::current();
    bounds.base() + bounds.low / UNIT * UNIT - TAG
}

fn runs(heap: &Heap) -> impl Iterator<Item = (usize, usize)> {
    runs_to(heap, last_tag())
}

/// Returns the runs of free memory, as start and end: free blocks with the tags between them, and
/// the source's remaining memory up to `room`, which extends the last run if that is free.
fn runs_to(heap: &Heap, room: usize) -> impl Iterator<Item = (usize, usize)> {
    let bounds = Bounds::current();
    let end = bounds.base() + bounds.end;
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let mut behind = None;
    for span in heap.spans().into_iter().take_while(|span| span.start < end) {
        let goes_on = behind == Some(span.start);
        match (span.kind, runs.last_mut()) {
            (SpanKind::Free, Some(last)) if goes_on => last.1 = span.end(),
            (SpanKind::Free, _) => runs.push((span.start, span.end())),
            (SpanKind::Header, _) if goes_on => {}
            _ => {
                behind = None;
                continue;
            }
        }
        behind = Some(span.end());
    }
    match runs.last_mut() {
        Some(last) if behind == Some(end) => last.1 = room,
        _ => runs.push((end, room)),
    }
    runs.into_iter()
}

/// Served if `sure`, refused if not even `possible`.
fn either(sure: bool, possible: bool) -> Prediction {
    match (sure, possible) {
        (true, _) => Prediction::Served,
        (false, true) => Prediction::Unknown,
        (false, false) => Prediction::Refused,
    }
}

fn holds((start, end): (usize, usize), size: usize, align: usize) -> bool {
    start.next_multiple_of(align) + size <= end
}

/// Returns whether free memory outside the pages of small blocks holds a request.
fn above(heap: &Heap, size: usize, align: usize) -> bool {
    let base = Bounds::current().base();
    let live = heap.model.live.iter();
    let small = live.filter(|(_, block)| block.layout.size() <= LARGEST);
    let pages: Vec<usize> = small.map(|(&offset, _)| base + page_of(offset)).collect();
    runs(heap).any(|(mut start, end)| {
        let mut held = false;
        let (first, last) = (start, end);
        for &page in pages.iter().filter(|&&page| page < last && first < page + PAGE) {
            held |= start < page && holds((start, page), size, align);
            start = start.max(page + PAGE);
        }
        held || start < end && holds((start, end), size, align)
    })
}

fn fit(heap: &Heap, choice: Choice, size: usize, align: usize) -> Prediction {
    let held = |size| runs(heap).any(|run| holds(run, size, align));
    if align > UNIT {
        // The position and the size of the alignment gap are not defined.
        return either(held(size + 2 * align), held(size));
    }
    if !held(size) {
        return Prediction::Refused;
    }
    let bounds = Bounds::current();
    let free = heap.spans().into_iter().filter(|span| span.kind == SpanKind::Free);
    // The wilderness is used last; only the last header follows it.
    let inner = free.filter(|span| span.end() + UNIT < bounds.base() + bounds.end);
    let fitting = inner.filter(|span| holds((span.start, span.end()), size, align));
    let chosen = match choice {
        Choice::Any => None,
        Choice::Lowest => fitting.min_by_key(|span| span.start),
        Choice::Smallest => fitting.min_by_key(|span| (span.len, span.start)),
        Choice::Largest => fitting.max_by_key(|span| (span.len, usize::MAX - span.start)),
    };
    chosen.map_or(Prediction::Served, |span| Prediction::At(span.start - bounds.base()))
}

fn lowest(heap: &Heap, size: usize, align: usize) -> Prediction {
    let base = Bounds::current().base();
    let free = heap.spans().into_iter().filter(|span| span.kind == SpanKind::Free);
    let mut fitting = free.filter(|span| holds((span.start, span.end()), size, align));
    fitting.next().map_or(Prediction::Unknown, |span| {
        Prediction::At(span.start.next_multiple_of(align) - base)
    })
}

/// Served if memory at a multiple of this length is free, as one block or as part of a larger one.
fn buddies(heap: &Heap, len: usize) -> Prediction {
    let bounds = Bounds::current();
    let len = len.max(UNIT);
    let mut taken = vec![false; bounds.low / UNIT];
    for span in heap.spans() {
        if span.kind != SpanKind::Free && span.start < bounds.base() + bounds.end {
            let first = (span.start - bounds.base()) / UNIT;
            taken[first..(span.end() - bounds.base()).div_ceil(UNIT)].fill(true);
        }
    }
    // The heap grows at its end, by whole blocks, and by what a free block there lacks.
    taken.truncate(bounds.end / UNIT);
    let grows_from = |start: usize| (start + len).next_multiple_of(2 * PAGE) <= bounds.low;
    let tail = bounds.end / len * len;
    let served = taken.chunks_exact(len / UNIT).any(|block| !block.contains(&true))
        || grows_from(bounds.end.next_multiple_of(len))
        || !taken[tail / UNIT..].contains(&true) && grows_from(tail);
    if served { Prediction::Served } else { Prediction::Refused }
}

/// Returns the size class: the largest block size with the same number of blocks per page.
fn class(size: usize) -> usize {
    let least = size.next_multiple_of(UNIT);
    PAGE / (PAGE / least) / UNIT * UNIT
}

fn paged(
    heap: &Heap,
    page: Page,
    current: &BTreeMap<usize, Option<usize>>,
    freed: &[usize],
    size: usize,
) -> Prediction {
    let class = class(size);
    let mut in_use: BTreeMap<usize, usize> = BTreeMap::new();
    for (&offset, block) in &heap.model.live {
        if block.len == class {
            *in_use.entry(page_of(offset)).or_default() += 1;
        }
    }
    in_use.retain(|_, blocks| *blocks < PAGE / class);
    if let Some(&current) = current.get(&class) {
        let Some(current) = current else { return Prediction::Unknown };
        let blocks = heap.model.live.range(current..current + PAGE).count();
        if blocks < PAGE / class {
            return Prediction::In(vec![current]);
        }
    }
    let candidates = in_use.iter();
    let best = match page {
        Page::Any => None,
        Page::MostFree => candidates.map(|(_, &blocks)| blocks).min(),
        Page::LeastFree => candidates.map(|(_, &blocks)| blocks).max(),
        Page::LastFreed => {
            let last = freed.iter().rev().find(|page| in_use.contains_key(page));
            return last.map_or(Prediction::Unknown, |&page| Prediction::In(vec![page]));
        }
    };
    in_use.retain(|_, blocks| best.is_none_or(|best| *blocks == best));
    if in_use.is_empty() {
        return Prediction::Unknown;
    }
    Prediction::In(in_use.into_keys().collect())
}
