//! Exports call stacks for other tools: folded stacks, and pprof's format.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use indexmap::IndexSet;
use pagewise::trace::Stacks;
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
        let sum = lines.entry(line).or_default();
        *sum = sum.saturating_add(figure);
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
    let mut profile = Profile::new();
    profile.kinds();
    profile.samples(counted, names)?;
    profile.mappings(&counted.stacks);
    profile.locations(&counted.stacks, names);
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(&profile.finish(date).0)?;
    Ok(out.finish()?)
}

/// A profile in the making, field by field of `profile.proto`.
struct Profile {
    message: Message,
    /// The string table, whose first text must be empty.
    texts: IndexSet<String>,
    /// Names and files of functions, each with its number minus one.
    functions: IndexSet<(String, String)>,
}

impl Profile {
    fn new() -> Self {
        let texts = IndexSet::from([String::new()]);
        Self { message: Message::default(), texts, functions: IndexSet::new() }
    }

    /// Returns the number of a text in the string table.
    fn text(&mut self, text: &str) -> u64 {
        self.texts.insert_full(text.to_owned()).0 as u64
    }

    /// Writes what each sample's figures are.
    fn kinds(&mut self) {
        for (name, unit, _) in SAMPLES {
            let mut kind = Message::default();
            kind.number(1, self.text(name));
            kind.number(2, self.text(unit));
            self.message.message(1, &kind);
        }
    }

    fn samples(&mut self, counted: &Counted, names: &Names<'_>) -> anyhow::Result<()> {
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
            // The format's numbers are signed.
            sample.packed(2, &SAMPLES.map(|(_, _, figure)| figure(figures).min(i64::MAX as u64)));
            self.message.message(2, &sample);
            names.may_keep(self.message.0.len() as u64, "the call stacks")?;
        }
        Ok(())
    }

    fn mappings(&mut self, stacks: &Stacks) {
        for (id, module) in (1..).zip(&stacks.modules) {
            let build_id: String =
                module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
            let mut mapping = Message::default();
            mapping.number(1, id);
            // Addresses are relative to the file, so the mappings' own addresses are unknown; use
            // placeholders.
            mapping.number(5, self.text(&module.path));
            mapping.number(6, self.text(&build_id));
            (7..=10).for_each(|has| mapping.number(has, 1));
            self.message.message(3, &mapping);
        }
    }

    /// Writes a location for each frame, and one more for allocations whose stack is not known.
    fn locations(&mut self, stacks: &Stacks, names: &Names<'_>) {
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
            for Place { function, source, .. } in places {
                let (file, line) = source.unwrap_or_default();
                let function = self.functions.insert_full((function, file)).0 as u64 + 1;
                let mut inlined = Message::default();
                inlined.number(1, function);
                inlined.number(2, line.into());
                location.message(4, &inlined);
            }
            self.message.message(4, &location);
        }
    }

    /// Writes the functions that locations named, and all texts.
    fn finish(mut self, date: u64) -> Message {
        for (id, (name, file)) in (1..).zip(std::mem::take(&mut self.functions)) {
            let mut function = Message::default();
            function.number(1, id);
            function.number(2, self.text(&name));
            function.number(3, self.text(&name));
            function.number(4, self.text(&file));
            self.message.message(5, &function);
        }
        let default = self.text("inuse_space");
        self.texts.iter().for_each(|text| self.message.bytes(6, text.as_bytes()));
        self.message.number(9, date.saturating_mul(1_000_000_000).min(i64::MAX as u64));
        self.message.number(14, default);
        self.message
    }
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
