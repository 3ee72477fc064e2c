//! The demand generator: sources that are active in parallel become one stream of requests, in
//! which only the order of events remains of time (Nielsen §2).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::source::{Arrivals, Cycling, Source};

/// Periods of a load. The first is for start-up; performance is measured over the others.
pub(crate) const PERIODS: usize = 21;

/// Length of a period, in the time units of Table I.
pub(super) const PERIOD: f64 = 4000.0;

/// A request to an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Allocates the block with this number, of this many words.
    Allocate { block: u32, words: u32 },
    /// Frees the block.
    Deallocate { block: u32 },
}

/// A stream of requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Demand {
    pub(crate) requests: Vec<Request>,
    /// Index in `requests` of the start of each period except the first.
    pub(crate) periods: Vec<usize>,
    /// Number of blocks allocated; they are numbered from 0.
    pub(crate) blocks: u32,
    /// Peak of the words in use.
    pub(crate) most_words: u32,
    /// Words in use at the end of each period except the first.
    pub(crate) words: Vec<u32>,
    /// Mean number of blocks in use over the periods except the first, by source.
    pub(crate) coexisting: Vec<f64>,
    /// The smallest and the largest requested size, in words.
    pub(crate) sizes: (u32, u32),
}

/// A time as a key: the bits of non-negative times compare like the times.
type Key = Reverse<(u64, u32)>;

/// What happens at a time.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A source makes a demand, if it is still in the turn for which this was planned.
    Demand { source: usize, turn: u32 },
    /// A source becomes active, or inactive.
    Turn { source: usize },
    /// A block's lifetime ends.
    Release { block: u32 },
    /// A period begins.
    Period,
}

/// A block in the generator.
#[derive(Clone, Copy, Debug)]
struct Block {
    source: usize,
    words: u32,
    born: f64,
}

/// The state of a source.
#[derive(Clone, Copy, Debug)]
struct State {
    active: bool,
    turn: u32,
    demands: u32,
}

/// The simulation.
struct Generator<'s> {
    sources: &'s [Source],
    states: Vec<State>,
    random: ChaCha8Rng,
    queue: BinaryHeap<Key>,
    events: Vec<What>,
    blocks: Vec<Block>,
    words: u32,
    demand: Demand,
}

impl Demand {
    /// Returns the demand of these sources over [`PERIODS`] periods, beginning with nothing in use.
    pub(crate) fn generate(sources: &[Source], seed: u64) -> Self {
        let mut generator = Generator::new(sources, seed);
        for source in 0..sources.len() {
            generator.start(source);
        }
        for period in 1..PERIODS {
            generator.plan(period as f64 * PERIOD, What::Period);
        }
        let end = PERIODS as f64 * PERIOD;
        while let Some(Reverse((time, number))) = generator.queue.pop() {
            let time = f64::from_bits(time);
            if time >= end {
                break;
            }
            generator.happen(time, generator.events[number as usize]);
        }
        generator.finish(end)
    }

    /// Returns the numbers of allocations and deallocations in each period except the first.
    pub(crate) fn by_period(&self) -> impl Iterator<Item = (usize, usize)> {
        let ends = self.periods[1..].iter().copied().chain([self.requests.len()]);
        self.periods.iter().zip(ends).map(|(&start, end)| {
            let requests = &self.requests[start..end];
            let is_allocation = |request: &&Request| matches!(request, Request::Allocate { .. });
            let allocations = requests.iter().filter(is_allocation).count();
            (allocations, requests.len() - allocations)
        })
    }
}

impl<'s> Generator<'s> {
    fn new(sources: &'s [Source], seed: u64) -> Self {
        Self {
            sources,
            states: vec![State { active: true, turn: 0, demands: 0 }; sources.len()],
            random: ChaCha8Rng::seed_from_u64(seed),
            queue: BinaryHeap::new(),
            events: Vec::new(),
            blocks: Vec::new(),
            words: 0,
            demand: Demand {
                requests: Vec::new(),
                periods: Vec::new(),
                blocks: 0,
                most_words: 0,
                words: Vec::new(),
                coexisting: vec![0.0; sources.len()],
                sizes: (u32::MAX, 0),
            },
        }
    }

    fn plan(&mut self, time: f64, what: What) {
        self.queue.push(Reverse((time.to_bits(), self.events.len() as u32)));
        self.events.push(what);
    }

    /// Starts a source.
    fn start(&mut self, source: usize) {
        let turn = match self.sources[source].cycling {
            Cycling::Never => None,
            Cycling::Coordinated { turn, active_first } => {
                self.states[source].active = active_first;
                Some(turn)
            }
            Cycling::Uncoordinated { turn } => {
                self.states[source].active = source.is_multiple_of(2);
                // At a random point of its turn.
                let turn = turn.sample(&mut self.random);
                Some(super::source::Law::Uniform(0.0, turn).sample(&mut self.random))
            }
        };
        if let Some(turn) = turn {
            self.plan(turn, What::Turn { source });
        }
        self.plan_demand(0.0, source);
    }

    /// Plans an active source's next demand after an interval.
    fn plan_demand(&mut self, now: f64, source: usize) {
        let State { active, turn, demands } = self.states[source];
        let over = match self.sources[source].arrivals {
            Arrivals::Sequential(_, most) => demands >= most,
            Arrivals::Every(_) => false,
        };
        if active && !over {
            let wait = self.sources[source].interval().sample(&mut self.random);
            self.plan(now + wait, What::Demand { source, turn });
        }
    }

    fn happen(&mut self, now: f64, what: What) {
        match what {
            What::Demand { source, turn } => {
                if self.states[source].turn == turn {
                    self.states[source].demands += 1;
                    for _ in 0..self.sources[source].blocks {
                        let words = self.sources[source].size.sample(&mut self.random);
                        self.allocate(now, source, (words.round() as u32).max(1));
                    }
                    self.plan_demand(now, source);
                }
            }
            What::Turn { source } => {
                let state = &mut self.states[source];
                state.active = !state.active;
                state.turn += 1;
                let turn = match self.sources[source].cycling {
                    Cycling::Coordinated { turn, .. } => turn,
                    Cycling::Uncoordinated { turn } => turn.sample(&mut self.random),
                    Cycling::Never => f64::INFINITY,
                };
                self.plan(now + turn, What::Turn { source });
                self.plan_demand(now, source);
            }
            What::Release { block } => {
                let Block { source, words, born } = self.blocks[block as usize];
                self.demand.requests.push(Request::Deallocate { block });
                self.words -= words;
                self.lived(source, born, now);
                if let Arrivals::Sequential(..) = self.sources[source].arrivals {
                    self.allocate(now, source, words);
                }
            }
            What::Period => {
                if !self.demand.periods.is_empty() {
                    self.demand.words.push(self.words);
                }
                self.demand.periods.push(self.demand.requests.len());
            }
        }
    }

    fn allocate(&mut self, now: f64, source: usize, words: u32) {
        let block = self.blocks.len() as u32;
        self.blocks.push(Block { source, words, born: now });
        let demand = &mut self.demand;
        demand.requests.push(Request::Allocate { block, words });
        demand.sizes = (demand.sizes.0.min(words), demand.sizes.1.max(words));
        self.words += words;
        demand.most_words = demand.most_words.max(self.words);
        let lifetime = self.sources[source].lifetime.sample(&mut self.random);
        self.plan(now + lifetime, What::Release { block });
    }

    /// Counts a block's time in use after the first period.
    fn lived(&mut self, source: usize, born: f64, died: f64) {
        let share = (died - born.max(PERIOD)).max(0.0) / (PERIOD * (PERIODS - 1) as f64);
        self.demand.coexisting[source] += share;
    }

    fn finish(mut self, end: f64) -> Demand {
        let mut lives = vec![true; self.blocks.len()];
        for request in &self.demand.requests {
            if let Request::Deallocate { block } = *request {
                lives[block as usize] = false;
            }
        }
        for block in (0..lives.len()).filter(|&block| lives[block]) {
            let Block { source, born, .. } = self.blocks[block];
            self.lived(source, born, end);
        }
        self.demand.words.push(self.words);
        self.demand.blocks = self.blocks.len() as u32;
        self.demand
    }
}
