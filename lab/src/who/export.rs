//! Exports call stacks for other tools: folded stacks, and pprof's format.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use indexmap::IndexSet;
use pagewise_replay::printable::printable;

use super::count::{Counted, Figures};
use super::name::{Names, Place};
use super::view::View;

/// Returns one line per call stack for drawing flame graphs: the outermost function first, then the
/// figure, as in `main;parse;node 4096`.
///
/// # Errors
/// If the lines take more memory than `--memory` allows.
pub(crate) fn folded(counted: &Counted, names: &Names<'_>, view: View) -> anyhow::Result<String> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    let mut kept = 0;
    for (site, figures) in &counted.sites {
        let figure = view.of(figures);
        if figure == 0 {
            continue;
        }
        let stack = names.stack(*site);
        let functions = stack.iter().rev();
        let functions: Vec<String> =
            functions.map(|place| printable(&place.function).replace(';', ":")).collect();
        let line = functions.join(";");
        // Until all are written, there are two of each.
        kept += 2 * line.len() as u64;
        names.may_keep(kept, "the call stacks")?;
        *lines.entry(line).or_default() += figure;
    }
    Ok(lines.iter().map(|(stack, figure)| format!("{stack} {figure}\n")).collect())
}

/// Name, unit, and figure.
type Sample = (&'static str, &'static str, fn(&Figures) -> u64);

/// The figures of a sample, as `go tool pprof` shows them.
const SAMPLES: [Sample; 7] = [
    ("alloc_objects", "count", |figures| figures.allocations),
    ("alloc_space", "bytes", |figures| figures.allocated_bytes),
    ("temporary_objects", "count", |figures| figures.temporary),
    ("leaked_objects", "count", |figures| figures.leaked_blocks),
    ("leaked_space", "bytes", |figures| figures.leaked_bytes),
    ("inuse_objects", "count", |figures| figures.live_blocks),
    ("inuse_space", "bytes", |figures| figures.live_bytes),
];

/// Returns a profile in pprof's format (`profile.proto`), compressed.
///
/// # Errors
/// If it takes more memory than `--memory` allows, or cannot be compressed.
pub(crate) fn pprof(counted: &Counted, names: &Names<'_>, date: u64) -> anyhow::Result<Vec<u8>> {
    let mut profile = Message::default();
    let mut texts = IndexSet::new();
    number(&mut texts, "");
    for (name, unit, _) in SAMPLES {
        let mut kind = Message::default();
        kind.number(1, number(&mut texts, name));
        kind.number(2, number(&mut texts, unit));
        profile.message(1, &kind);
    }
    let stacks = &counted.stacks;
    for (site, figures) in &counted.sites {
        let mut locations: Vec<u64> =
            stacks.callers(*site).map(|node| u64::from(node.frame) + 1).collect();
        if locations.is_empty() {
            // Allocations with an unknown stack have their own location.
            locations.push(stacks.frames.len() as u64 + 1);
        }
        let mut sample = Message::default();
        sample.packed(1, &locations);
        sample.packed(2, &SAMPLES.map(|(_, _, figure)| figure(figures)));
        profile.message(2, &sample);
        names.may_keep(profile.0.len() as u64, "the call stacks")?;
    }
    for (id, module) in (1..).zip(&stacks.modules) {
        let build_id: String = module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut mapping = Message::default();
        mapping.number(1, id);
        // Addresses are relative to the file, so the mappings' own addresses are unknown; use
        // placeholders.
        mapping.number(5, number(&mut texts, &module.path));
        mapping.number(6, number(&mut texts, &build_id));
        (7..=10).for_each(|has| mapping.number(has, 1));
        profile.message(3, &mapping);
    }
    let mut functions: HashMap<(String, String), u64> = HashMap::new();
    let mut described = Vec::new();
    let frames = stacks.frames.iter().map(|frame| {
        let module = frame.module.map_or(0, |module| u64::from(module) + 1);
        (module, frame.address, names.places(frame))
    });
    let unknown = (0, 0, names.stack(0));
    for (id, (module, address, places)) in (1..).zip(frames.chain([unknown])) {
        let mut location = Message::default();
        location.number(1, id);
        location.number(2, module);
        location.number(3, address);
        for place in places {
            let Place { function, source, .. } = place;
            let (file, line) = source.unwrap_or_default();
            let new = functions.len() as u64 + 1;
            let key = (function, file);
            let number = match functions.get(&key) {
                Some(&number) => number,
                None => {
                    let mut function = Message::default();
                    function.number(1, new);
                    function.number(2, number(&mut texts, &key.0));
                    function.number(3, number(&mut texts, &key.0));
                    function.number(4, number(&mut texts, &key.1));
                    described.push(function);
                    functions.insert(key, new);
                    new
                }
            };
            let mut inlined = Message::default();
            inlined.number(1, number);
            inlined.number(2, line.into());
            location.message(4, &inlined);
        }
        profile.message(4, &location);
    }
    described.iter().for_each(|function| profile.message(5, function));
    let default = number(&mut texts, "inuse_space");
    texts.iter().for_each(|text| profile.bytes(6, text.as_bytes()));
    profile.number(9, date.saturating_mul(1_000_000_000).min(i64::MAX as u64));
    profile.number(14, default);
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(&profile.0)?;
    Ok(out.finish()?)
}

/// Returns the number of a text in the string table.
fn number(texts: &mut IndexSet<String>, text: &str) -> u64 {
    texts.insert_full(text.to_owned()).0 as u64
}

/// A message in protocol buffers encoding.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    fn packed(&mut self, field: u64, values: &[u64]) {
        let mut packed = Self::default();
        values.iter().for_each(|&value| packed.varint(value));
        self.message(field, &packed);
    }
}
