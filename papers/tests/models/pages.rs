//! Brent's strategies for blocks of one class (§2, §4), from STACK to MRU: pages of equal blocks
//! over FIRST-FIT.

use std::collections::BTreeMap;

use pagewise::catalogue;
use pagewise::pages::Config;
use pagewise::sizemap::SizeMap;
use rand::RngExt;

use crate::segments::Lowest;
use crate::{Load, Model, agree};

const PAGE: usize = 512;
const UNIT: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// The block freed last; the one freed first; blocks are never reused.
    Stack,
    Queue,
    NoFree,
    /// Any free block of the class.
    AnyBlock,
    /// The next in the current page; a page is reused when it is wholly free.
    Quick,
    /// From the current page; the next page is any with a free block, the one with the most or the
    /// fewest, or the one freed into last.
    AnyPage,
    MostFree,
    LeastFree,
    Mru,
}

/// A page of blocks of a class.
#[derive(Clone, Debug)]
struct Page {
    class: usize,
    /// Its free blocks; for QUICK, those not used since the page was empty.
    free: Vec<bool>,
    fresh: usize,
    /// When one of its blocks was last freed.
    freed: u64,
}

impl Page {
    fn count(&self) -> usize {
        self.free.iter().filter(|free| **free).count()
    }
}

struct Pages {
    rule: Rule,
    /// FREETOL, bytes (§5.2).
    tolerance: usize,
    below: Lowest,
    pages: BTreeMap<usize, Page>,
    current: BTreeMap<usize, usize>,
    /// Wholly free pages, the latest one last.
    empty: Vec<usize>,
    /// The lists of STACK and QUEUE, by class.
    lists: BTreeMap<usize, Vec<usize>>,
    clock: u64,
    /// Sum of the relative ranks of blocks among their possible places, and the number that had a
    /// choice.
    ranks: (f64, u32),
}

impl Pages {
    fn new(rule: Rule, tolerance: usize) -> Self {
        Self {
            rule,
            tolerance,
            below: Lowest::default(),
            pages: BTreeMap::new(),
            current: BTreeMap::new(),
            empty: Vec::new(),
            lists: BTreeMap::new(),
            clock: 0,
            ranks: (0.0, 0),
        }
    }

    fn class(bytes: usize) -> usize {
        bytes.next_multiple_of(UNIT)
    }

    /// Returns where a new page of a class would start.
    fn new_page(&self) -> usize {
        match self.empty.last() {
            Some(&page) => page,
            None => self.below.place(PAGE, PAGE),
        }
    }

    /// Makes a page one of a class.
    fn open(&mut self, start: usize, class: usize) {
        if self.empty.last() == Some(&start) {
            self.empty.pop();
        }
        self.below.put(start, PAGE);
        let page = Page { class, free: vec![true; PAGE / class], fresh: 0, freed: 0 };
        self.pages.insert(start, page);
    }

    /// Returns the lowest free block of a page.
    fn lowest(&self, start: usize) -> usize {
        let page = &self.pages[&start];
        let block = page.free.iter().position(|free| *free).expect("a free block");
        start + block * page.class
    }

    /// Returns the free blocks of a class.
    fn blocks(&self, class: usize) -> Vec<usize> {
        let pages = self.pages.iter().filter(|(_, page)| page.class == class);
        let free = |page: &Page, block: &usize| page.free[*block];
        pages
            .flat_map(|(start, page)| {
                let blocks = (0..page.free.len()).filter(|block| free(page, block));
                blocks.map(|block| start + block * class).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Returns the pages of a class that may become current.
    fn candidates(&self, class: usize) -> Vec<usize> {
        let current = self.current.get(&class);
        let may = |(start, page): &(&usize, &Page)| {
            page.class == class
                && Some(*start) != current
                && page.count() >= self.tolerance.div_ceil(class)
                && page.count() < page.free.len()
        };
        let candidates: Vec<_> = self.pages.iter().filter(may).collect();
        let best = match self.rule {
            Rule::MostFree => candidates.iter().map(|(_, page)| page.count() as u64).max(),
            Rule::LeastFree => candidates.iter().map(|(_, page)| page.count() as u64).min(),
            Rule::Mru => candidates.iter().map(|(_, page)| page.freed).max(),
            _ => None,
        };
        let of =
            |page: &Page| if self.rule == Rule::Mru { page.freed } else { page.count() as u64 };
        let chosen = candidates.iter().filter(|(_, page)| best.is_none_or(|best| of(page) == best));
        chosen.map(|(start, _)| **start).collect()
    }
}

impl Model for Pages {
    fn places(&mut self, bytes: usize) -> Vec<usize> {
        let class = Self::class(bytes);
        match self.rule {
            Rule::Stack => {
                let list = self.lists.get(&class).and_then(|list| list.last().copied());
                vec![list.unwrap_or_else(|| self.new_page())]
            }
            Rule::Queue => {
                let list = self.lists.get(&class).and_then(|list| list.first().copied());
                vec![list.unwrap_or_else(|| self.new_page())]
            }
            Rule::AnyBlock => {
                let free = self.blocks(class);
                if !free.is_empty() {
                    return free;
                }
                let page = self.new_page();
                (0..PAGE / class).map(|block| page + block * class).collect()
            }
            Rule::NoFree | Rule::Quick => {
                let current = self.current.get(&class);
                let page = current.filter(|page| {
                    let page = &self.pages[*page];
                    page.fresh < page.free.len()
                });
                vec![page.map_or_else(
                    || self.new_page(),
                    |start| start + self.pages[start].fresh * class,
                )]
            }
            _ => {
                let current = self.current.get(&class);
                if let Some(&page) = current.filter(|page| self.pages[*page].count() > 0) {
                    return vec![self.lowest(page)];
                }
                let candidates = self.candidates(class);
                if candidates.is_empty() {
                    return vec![self.new_page()];
                }
                candidates.into_iter().map(|page| self.lowest(page)).collect()
            }
        }
    }

    fn take(&mut self, start: usize, bytes: usize) {
        let class = Self::class(bytes);
        let at = start / PAGE * PAGE;
        if let Rule::AnyBlock = self.rule {
            let free = self.blocks(class);
            let rank = free.iter().position(|&block| block == start);
            if let Some(rank) = rank.filter(|_| free.len() > 1) {
                self.ranks.0 += rank as f64 / (free.len() - 1) as f64;
                self.ranks.1 += 1;
            }
        }
        let is_new = !self.pages.contains_key(&at) || self.empty.contains(&at);
        if is_new {
            self.open(at, class);
        }
        let page = self.pages.get_mut(&at).expect("a page");
        page.free[(start - at) / class] = false;
        page.fresh += 1;
        match self.rule {
            Rule::Stack | Rule::Queue => {
                let list = self.lists.entry(class).or_default();
                if is_new {
                    list.extend((1..PAGE / class).map(|block| at + block * class));
                    if self.rule == Rule::Stack {
                        list.reverse();
                    }
                } else {
                    list.retain(|&block| block != start);
                }
            }
            _ => {
                self.current.insert(class, at);
            }
        }
    }

    fn align(&self) -> usize {
        PAGE
    }

    fn free(&mut self, start: usize, bytes: usize) {
        let class = Self::class(bytes);
        let at = start / PAGE * PAGE;
        self.clock += 1;
        let page = self.pages.get_mut(&at).expect("a page");
        page.freed = self.clock;
        page.free[(start - at) / class] = true;
        let is_empty = page.count() == page.free.len();
        let is_current = self.current.get(&class) == Some(&at);
        match self.rule {
            Rule::Stack | Rule::Queue => self.lists.entry(class).or_default().push(start),
            Rule::NoFree | Rule::AnyBlock => {}
            Rule::Quick => {
                if is_empty {
                    self.current.retain(|_, page| *page != at);
                    self.empty.push(at);
                }
            }
            _ => {
                if is_empty && !is_current {
                    self.empty.push(at);
                }
            }
        }
    }
}

#[test]
fn paged_strategies_serve_requests_as_the_naive_model_does() {
    let load = Load {
        requests: 6_000,
        wave: 400,
        size: |random| random.random_range(1..=8) * UNIT - random.random_range(0..UNIT),
    };
    let rules = [
        ("STACK", Rule::Stack),
        ("QUEUE", Rule::Queue),
        ("RANDOM", Rule::AnyBlock),
        ("NOFREE", Rule::NoFree),
        ("QUICK", Rule::Quick),
        ("RANDOM(B)", Rule::AnyPage),
        ("MOST-FREE", Rule::MostFree),
        ("LEAST-FREE", Rule::LeastFree),
        ("MRU", Rule::Mru),
    ];
    for (name, rule) in rules {
        for (seed, freetol) in (0..10).map(|seed| (seed, 1)).chain([(10, 100), (11, 200)]) {
            let config = Config::new()
                .page_size(PAGE)
                .unit(UNIT)
                .sizemap(SizeMap::Linear)
                .freetol(freetol)
                .ffcrossover(PAGE)
                .seed(seed);
            let entry = catalogue::find(name).expect("a strategy");
            let mut engine = entry.build(config, 1 << 30).expect("a heap");
            let mut model = Pages::new(rule, freetol);
            agree(name, &mut *engine, &mut model, load, 1, seed);
            if rule == Rule::AnyBlock {
                let (sum, count) = model.ranks;
                let mean = sum / f64::from(count);
                assert!(count > 1_000 && (0.45..0.55).contains(&mean), "{mean} of {count} choices");
            }
        }
    }
}
