//! The parts of hardened mode by name, as `PAGEWISE_HARDENED` has them.

use crate::global::Hardening;

type Part = (&'static str, fn(Hardening) -> Hardening);

/// The parts, each with what it adds to the checks.
const PARTS: [Part; 7] = [
    ("checks", |parts| parts),
    ("canaries", |parts| parts.canaries(true)),
    ("random", |parts| parts.random(true)),
    ("quarantine", |parts| parts.quarantine(Hardening::ON.quarantine)),
    ("zero", |parts| parts.zero(true)),
    ("pinned", |parts| parts.pinned(true)),
    ("guards", |parts| parts.guards(true)),
];

/// The number that stands for names with commas between: a bit for each, above the number for all. `None`
/// if one of them is unknown.
pub(super) fn parts(names: &str) -> Option<u64> {
    names.split(',').try_fold(0, |all, name| {
        let part = PARTS.iter().position(|(known, _)| *known == name.trim())?;
        Some(all | 2 << part)
    })
}

/// What a number stands for: 0, 1, or the bits of parts.
pub(super) fn of_parts(number: u64) -> Hardening {
    match number {
        0 => Hardening::OFF,
        1 => Hardening::ON,
        bits => {
            let wanted = PARTS.iter().enumerate().filter(|(part, _)| bits & 2 << part != 0);
            wanted.fold(Hardening::CHECKS, |parts, (_, (_, add))| add(parts))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_name() {
        let of = |names| parts(names).map(of_parts);
        assert_eq!(of("checks"), Some(Hardening::CHECKS));
        assert_eq!(of("canaries, zero"), Some(Hardening::CHECKS.canaries(true).zero(true)));
        let all = "canaries,random,quarantine,zero,guards";
        assert_eq!(of(all), Some(Hardening::ON));
        for wrong in ["", "canary", "canaries,", "1,zero", "2"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!((of_parts(0), of_parts(1)), (Hardening::OFF, Hardening::ON));
    }
}
