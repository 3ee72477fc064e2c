//! Redirects slots to other functions: [`Patch`].

use super::memory::{Maps, Memory};
use super::objects::{Object, Slot};

/// The addresses of functions, in the order of their names; 0 if there is none.
#[derive(Debug, Default)]
pub(super) struct Targets(pub(super) Vec<u64>);

impl Targets {
    pub(super) fn of(addresses: &[u64]) -> Self {
        Self(addresses.to_vec())
    }

    /// Returns, for each name, the first function that a file defines.
    pub(super) fn first(
        memory: &Memory,
        objects: &[Object],
        names: &[&str],
    ) -> anyhow::Result<Self> {
        let mut found = vec![0; names.len()];
        for (address, name) in found.iter_mut().zip(names) {
            for object in objects {
                if let Some(at) = object.function(memory, name)? {
                    *address = at;
                    break;
                }
            }
        }
        Ok(Self(found))
    }
}

/// A change of slots.
pub(super) struct Patch<'a> {
    pub(super) memory: &'a Memory,
    pub(super) maps: Maps,
    pub(super) names: &'a [&'static str],
    /// A slot is changed if it leads to one of these,
    pub(super) from: &'a [&'a Targets],
    /// or, if set, to the loader, which binds the function at its first call.
    pub(super) unbound: bool,
    pub(super) to: &'a Targets,
}

impl Patch<'_> {
    /// Returns the slots of a file to change, each with its new value.
    pub(super) fn find(&self, object: &Object) -> anyhow::Result<Vec<(u64, u64)>> {
        let slots = object.slots(self.memory, self.names)?;
        let change = |slot: Slot| {
            let found = self.memory.word(slot.address).ok()?;
            let of = |targets: &Targets| targets.0.get(slot.function).copied().unwrap_or(0);
            let is_known = self.from.iter().any(|from| of(from) == found && found != 0);
            let is_meant = is_known || self.unbound && slot.is_lazy && self.is_lazy(object, found);
            let to = of(self.to);
            (is_meant && to != 0 && to != found).then_some((slot.address, to))
        };
        Ok(slots.into_iter().filter_map(change).collect())
    }

    /// Writes the slots; returns how many.
    pub(super) fn apply(&self, object: &Object) -> anyhow::Result<usize> {
        let slots = self.find(object)?;
        for &(address, function) in &slots {
            self.memory.write(address, &function.to_ne_bytes())?;
        }
        Ok(slots.len())
    }

    /// Returns whether a slot leads to code of its own file, as it does until the loader binds the
    /// function.
    fn is_lazy(&self, object: &Object, found: u64) -> bool {
        let file = self.maps.file(object.dynamic);
        file.is_some() && self.maps.file(found) == file
    }
}
