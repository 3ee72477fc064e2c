//! The allocators that can serve a replay: [`Server`].

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::NonNull;

use anyhow::{Context, bail};
use pagewise::global::{Pagewise, Tuning};
use pagewise::hybrid::{self, Hybrid};
use pagewise::pages::Config;
use pagewise::source::Reserved;
use pagewise::{Strategy, catalogue};
use pagewise_replay::lea::Lea;
use pagewise_replay::workload::{CAPACITY, Stop, System, Target, capacity};
use serde::{Deserialize, Serialize};

use super::json::{ConfigJson, HybridJson, TuningJson};

/// An allocator with all its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Server {
    /// A strategy of the catalogue.
    Strategy {
        name: String,
        #[serde(with = "ConfigJson")]
        config: Config,
    },
    /// The tunable hybrid.
    Hybrid(#[serde(with = "HybridJson")] hybrid::Settings),
    /// The global allocator.
    Global(#[serde(with = "TuningJson")] Tuning),
    /// Doug Lea's allocator.
    Lea,
    /// The process's own `malloc`.
    Malloc,
}

impl Server {
    /// Returns the strategy, ready for use.
    ///
    /// # Errors
    /// If the parameters are invalid, or it is not a strategy.
    pub(crate) fn strategy(&self) -> anyhow::Result<Box<dyn Strategy + Send>> {
        match self {
            Self::Strategy { name, config } => {
                let entry = catalogue::find(name);
                let entry = entry.with_context(|| format!("unknown strategy '{name}'"))?;
                Ok(entry.build(*config, capacity(entry))?)
            }
            Self::Hybrid(settings) => {
                settings.check()?;
                Ok(Box::new(Hybrid::new(*settings, Reserved::new(CAPACITY), ())))
            }
            Self::Global(_) | Self::Lea | Self::Malloc => bail!("that is no strategy"),
        }
    }

    /// Serves a replay.
    ///
    /// # Errors
    /// A [`Stop`] of the replay; invalid parameters.
    pub(crate) fn serve(&self, replay: &mut impl Replay) -> anyhow::Result<()> {
        match self {
            Self::Strategy { .. } | Self::Hybrid(_) => replay.of(&mut *self.strategy()?)?,
            Self::Global(tuning) => {
                tuning.check()?;
                replay.of(&mut Direct(Pagewise::with(*tuning)))?;
            }
            // Called through a vtable, as the strategies are.
            Self::Lea => replay.of::<dyn Target>(&mut Lea::new(CAPACITY))?,
            Self::Malloc => replay.of(&mut System)?,
        }
        Ok(())
    }
}

/// A replay that measures a server.
pub(crate) trait Replay {
    /// Runs the replay.
    ///
    /// # Errors
    /// Why it stopped.
    fn of<T: Target + ?Sized>(&mut self, target: &mut T) -> Result<(), Stop>;
}

/// The global allocator, called as programs call it.
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
        // SAFETY: the caller guarantees that the block is in use with this layout; the new size is
        // not 0.
        NonNull::new(unsafe { self.0.realloc(block.as_ptr(), layout, new_size) })
    }

    #[inline(always)]
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller guarantees that the block is in use with this layout.
        unsafe { self.0.dealloc(block.as_ptr(), layout) };
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        // SAFETY: the caller guarantees that the block is in use.
        Some(unsafe { self.0.usable_size(block.as_ptr()) })
    }
}

#[cfg(test)]
mod tests {
    use pagewise::sizemap::SizeMap;

    use super::*;

    #[test]
    fn a_server_survives_a_json_round_trip() {
        let classes = SizeMap::Classes(&[16, 48, 1024]);
        let config = Config::arena().sizemap(classes).freetol(99);
        let servers = [
            Server::Strategy { name: "MRU".into(), config },
            Server::Hybrid(hybrid::Settings::memory()),
            Server::Global(Tuning::new().pages(Tuning::new().pages.freetol(7)).background(true)),
            Server::Lea,
            Server::Malloc,
        ];
        for server in servers {
            let json = serde_json::to_string(&server).expect("JSON");
            assert_eq!(serde_json::from_str::<Server>(&json).expect("a server"), server);
        }
    }
}
