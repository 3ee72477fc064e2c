//! Nielsen's experiment (1977): simulation programs' demands for memory, and the fixed memories in
//! which algorithms serve them. `docs/nielsen.md` gives the source of each part, and names the
//! parts that are ours.
//!
//! ```text
//!  Source × n ──generate──► Demand ──Trial──► Algorithm over a fixed memory of words
//!  (Table I)  (Table II)    requests           (Tables IV, V, VI)
//! ```
//! Files in order of dependency: `source` (the requests of a part of a program), `demand` (the
//! stream of requests), `loads` (the 18 loads), `algorithm` (the 35, by name), `trial`, `fibonacci`
//! (the buddies that the paper calls for).

mod algorithm;
mod demand;
mod fibonacci;
mod loads;
mod source;
mod trial;

pub(crate) use algorithm::{ALGORITHMS, Algorithm, Listed, WITH_LARGER, WITHOUT_LARGER};
pub(crate) use demand::Demand;
pub(crate) use fibonacci::{Fibonacci, Joins};
pub(crate) use loads::LOADS;
pub(crate) use trial::{Cost, Trial, clock};
