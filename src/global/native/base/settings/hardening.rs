//! The parts of hardened mode by name, as in `PAGEWISE_HARDENED`.

use crate::global::Hardening;

/// A part's name, and the function that adds it.
type Part = (&'static str, fn(Hardening) -> Hardening);

/// Each part's name, and the function that adds it to the checks.
const PARTS: [Part; 7] = [
    ("checks", |parts| parts),
    ("canaries", |parts| parts.canaries(true)),
    ("random", |parts| parts.random(true)),
    ("quarantine", |parts| parts.quarantine(Hardening::ON.quarantine)),
    ("zero", |parts| parts.zero(true)),
    ("pinned", |parts| parts.pinned(true)),
    ("guards", |parts| parts.guards(true)),
];

/// Parses a value: 0, 1, or names separated by commas. `None` if a name is unknown.
pub(super) fn parse(text: &str) -> Option<Hardening> {
    match text {
        "0" => Some(Hardening::OFF),
        "1" => Some(Hardening::ON),
        names => names.split(',').try_fold(Hardening::CHECKS, |parts, name| {
            let (_, add) = PARTS.iter().find(|(known, _)| *known == name.trim())?;
            Some(add(parts))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_name() {
        let of = parse;
        assert_eq!(of("checks"), Some(Hardening::CHECKS));
        assert_eq!(of("canaries, zero"), Some(Hardening::CHECKS.canaries(true).zero(true)));
        let all = "canaries,random,quarantine,zero,guards";
        assert_eq!(of(all), Some(Hardening::ON));
        for wrong in ["", "canary", "canaries,", "1,zero", "2"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!((of("0"), of("1")), (Some(Hardening::OFF), Some(Hardening::ON)));
    }
}
