//! Releases a process that another pagewise attached to, and did not leave, since it was killed.

use std::path::Path;

use pagewise::trace::raw::{FUNCTIONS, Keeper};

use super::objects::Object;
use super::slots::{Patch, Targets};
use super::{Attached, stub};

impl Attached<'_> {
    /// Restores the slots that another pagewise changed, which was killed. Refuses a process that
    /// is being recorded.
    pub(super) fn release(&self, objects: &[Object]) -> anyhow::Result<()> {
        let mut left = Vec::new();
        for recorder in objects.iter().filter(|object| is_recorder(&object.path)) {
            let theirs = Targets::first(&self.memory, std::slice::from_ref(recorder), &FUNCTIONS)?;
            if !self.is_called(&theirs, objects)? {
                continue;
            }
            // One that was preloaded is found first, in the C library's place.
            let is_preloaded = theirs.0[0] == self.real.0[0];
            let is_kept = Path::new(&recorder.path).parent().is_some_and(Keeper::is_there);
            anyhow::ensure!(
                !is_preloaded && !is_kept,
                "{} is already being recorded",
                self.process
            );
            left.push(theirs);
        }
        // A stub that was to load a recorder.
        for object in objects {
            for slot in object.slots(&self.memory, &FUNCTIONS[..1])? {
                let stub = stub::at(&self.memory, self.memory.word(slot.address)?);
                left.extend(stub.map(|functions| Targets::of(&functions)));
            }
        }
        let from: Vec<_> = left.iter().collect();
        let patch = Patch { unbound: false, ..self.patching(&FUNCTIONS, &from, &self.real)? };
        objects.iter().try_for_each(|object| patch.apply(object).map(drop))
    }

    /// Returns whether a recorder is called, judged by the slots of `malloc`.
    fn is_called(&self, recorder: &Targets, objects: &[Object]) -> anyhow::Result<bool> {
        for object in objects.iter().filter(|object| !is_recorder(&object.path)) {
            for slot in object.slots(&self.memory, &FUNCTIONS[..1])? {
                if self.memory.word(slot.address)? == recorder.0[0] {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Returns whether a path is a recorder's.
fn is_recorder(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with("libpagewise_record"))
}
