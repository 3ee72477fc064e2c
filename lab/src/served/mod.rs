//! Who can serve a replay in a process of its own, and what is measured of it there: a strategy, the
//! global allocator, whose heap is the process's and whose tuning is fixed at its first use, Lea's
//! allocator, or `malloc`, the C library's or a library's that is loaded in its place.
//!
//! As everywhere in the lab, what is metered is not timed.

mod held;
mod json;
mod resident;

use std::alloc::{GlobalAlloc, Layout};
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

use anyhow::{Context, bail};
use pagewise::global::{Pagewise, Tuning};
use pagewise::hybrid::{self, Hybrid};
use pagewise::paged::Config;
use pagewise::source::Reserved;
use pagewise::{Strategy, catalogue};
use serde::{Deserialize, Serialize};

use self::json::{ConfigJson, HybridJson, TuningJson};
use self::resident::Watched;
use crate::child::{self, Job};
use crate::competitor::CAPACITY;
use crate::lea::Lea;
use crate::system::library::Library;
use crate::timing::Writes;
use crate::workload::{Observer, Outcome, Stop, System, Target, Workload};

pub(crate) use self::held::{Held, Holding};
pub(crate) use self::resident::Memory;

/// Who serves, with all parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Server {
    /// A strategy of the catalogue.
    Strategy {
        name: String,
        #[serde(with = "ConfigJson")]
        config: Config,
    },
    /// The tunable hybrid.
    Hybrid(#[serde(with = "HybridJson")] hybrid::Config),
    /// The global allocator.
    Global(#[serde(with = "TuningJson")] Tuning),
    /// Doug Lea's allocator.
    Lea,
    /// What the process's `malloc` is.
    Malloc,
}

impl Server {
    /// The strategy, ready to serve.
    ///
    /// # Errors
    /// If the parameters make no sense, or it is no strategy.
    pub(crate) fn strategy(&self) -> anyhow::Result<Box<dyn Strategy + Send>> {
        match self {
            Self::Strategy { name, config } => {
                let entry = catalogue::find(name);
                let entry = entry.with_context(|| format!("there is no strategy '{name}'"))?;
                Ok(entry.build(*config, CAPACITY)?)
            }
            Self::Hybrid(config) => {
                config.check()?;
                Ok(Box::new(Hybrid::new(*config, Reserved::new(CAPACITY), ())))
            }
            Self::Global(_) | Self::Lea | Self::Malloc => bail!("that is no strategy"),
        }
    }

    /// Serves a replay.
    fn serve(&self, replay: &mut impl Replay) -> anyhow::Result<()> {
        match self {
            Self::Strategy { .. } | Self::Hybrid(_) => replay.of(&mut *self.strategy()?)?,
            Self::Global(tuning) => {
                tuning.check()?;
                replay.of(&mut Direct(Pagewise::with(*tuning)))?;
            }
            // Called as the strategies are: through a table of functions.
            Self::Lea => replay.of::<dyn Target>(&mut Lea::new(CAPACITY))?,
            Self::Malloc => replay.of(&mut System)?,
        }
        Ok(())
    }
}

/// A replay that whoever serves is measured by.
trait Replay {
    fn of<T: Target + ?Sized>(&mut self, target: &mut T) -> Result<(), Stop>;
}

/// Nanoseconds of processor time.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Timed(Server);

impl Job for Timed {
    const NAME: &'static str = "timed";
    type Found = u64;

    fn run(&self, workload: &Workload) -> anyhow::Result<u64> {
        struct Timing<'w>(&'w Workload, Option<Outcome>);
        impl Replay for Timing<'_> {
            fn of<T: Target + ?Sized>(&mut self, target: &mut T) -> Result<(), Stop> {
                self.1 = Some(self.0.replay(target, &mut Writes)?);
                Ok(())
            }
        }
        let mut timing = Timing(workload, None);
        self.0.serve(&mut timing)?;
        let elapsed = timing.1.map_or(Duration::ZERO, |outcome| outcome.elapsed);
        Ok(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// What a replay takes of the system.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Metered(Server);

impl Job for Metered {
    const NAME: &'static str = "metered";
    type Found = Memory;

    fn run(&self, workload: &Workload) -> anyhow::Result<Memory> {
        struct Metering<'w>(&'w Workload, Option<anyhow::Result<Memory>>);
        impl Replay for Metering<'_> {
            fn of<T: Target + ?Sized>(&mut self, target: &mut T) -> Result<(), Stop> {
                let mut watched = Watched::new(target, self.0.facts.pairs());
                self.0.replay(&mut watched, &mut Nobody)?;
                self.1 = Some(watched.finish());
                Ok(())
            }
        }
        let mut metering = Metering(workload, None);
        self.0.serve(&mut metering)?;
        metering.1.context("nothing was replayed")?
    }
}

/// Watches nothing.
struct Nobody;

impl<T: ?Sized> Observer<T> for Nobody {}

/// The global allocator, called as a program calls it.
struct Direct(Pagewise);

// SAFETY: the contract is `GlobalAlloc`'s own; sizes are not 0.
unsafe impl Target for Direct {
    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the layout's size is not 0.
        NonNull::new(unsafe { self.0.alloc(layout) })
    }

    #[inline(always)]
    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: passed on; the new size is not 0.
        NonNull::new(unsafe { self.0.realloc(block.as_ptr(), layout, new_size) })
    }

    #[inline(always)]
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: passed on.
        unsafe { self.0.dealloc(block.as_ptr(), layout) };
    }
}

/// Processor time of one replay in a fresh process.
///
/// # Errors
/// If the process cannot be run or fails, or the library was not loaded.
pub(crate) fn time(
    trace: &Path,
    server: &Server,
    library: Option<&Library>,
) -> anyhow::Result<Result<Duration, Stop>> {
    let found = child::ask(&Timed(server.clone()), trace, library)?;
    Ok(found.map(Duration::from_nanos))
}

/// What one replay takes of the system in a fresh process.
///
/// # Errors
/// As [`time`]; if the system does not tell.
pub(crate) fn memory(
    trace: &Path,
    server: &Server,
    library: Option<&Library>,
) -> anyhow::Result<Result<Memory, Stop>> {
    child::ask(&Metered(server.clone()), trace, library)
}

/// What the C library says that it holds in one replay in a fresh process, and the OS pages touched.
///
/// # Errors
/// As [`time`].
pub(crate) fn holding(trace: &Path) -> anyhow::Result<Result<Holding, Stop>> {
    child::ask(&Held, trace, None)
}

#[cfg(test)]
mod tests {
    use pagewise::sizemap::SizeMap;

    use super::*;

    #[test]
    fn whoever_serves_is_the_same_after_a_journey_as_json() {
        let classes = SizeMap::Classes(&[16, 48, 1024]);
        let config = Config { sizemap: classes, freetol: 99, ..Config::arena() };
        let servers = [
            Server::Strategy { name: "MRU".into(), config },
            Server::Hybrid(hybrid::Config::memory()),
            Server::Global(Tuning {
                pages: Config { freetol: 7, ..Tuning::new().pages },
                ..Tuning::new()
            }),
            Server::Lea,
            Server::Malloc,
        ];
        for server in servers {
            let json = serde_json::to_string(&server).expect("JSON");
            assert_eq!(serde_json::from_str::<Server>(&json).expect("a server"), server);
        }
    }
}
