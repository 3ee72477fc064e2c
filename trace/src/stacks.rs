//! The call stacks of a trace: a tree whose nodes are the *sites* of allocations.
//!
//! ```text
//!  nodes    1 main          frames    the function, file and line of each, innermost inlined
//!           ├─ 2 parse                function first, once they were looked up
//!           │  └─ 3 xmalloc
//!           └─ 4 run
//! ```
//! A site is the number of a node, from 1: the frame that called the allocator, with the frames
//! from there to the root as its callers. A node comes after its parent, so the tree has no cycles.

use super::error::Reason;
use super::varint;

/// Maximum number of modules, names, frames, lines or nodes of a trace.
pub(crate) const MOST: usize = 1 << 23;
/// Maximum bytes of a trace's stacks before compression.
pub(crate) const LONGEST: usize = 1 << 26;

/// The call stacks of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// The files that contain the addresses.
    pub modules: Vec<Module>,
    /// Names of functions and source files.
    pub names: Vec<String>,
    /// Places in the code.
    pub frames: Vec<Frame>,
    /// The tree; site `n` is the node at index `n - 1`.
    pub nodes: Vec<Node>,
}

/// A program or a shared library.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// Its path on the recorded machine.
    pub path: String,
    /// Its build id; empty if it has none.
    pub build_id: Vec<u8>,
}

/// A place in the code: a return address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The module, as an index of [`Stacks::modules`].
    pub module: Option<u32>,
    /// The address in the module's file, or in memory if there is no module.
    pub address: u64,
    /// The functions at this address, innermost inlined one first; empty if not looked up or not
    /// found.
    pub lines: Vec<Line>,
}

/// A place in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The function, as an index of [`Stacks::names`].
    pub function: u32,
    /// The source file, as an index of [`Stacks::names`].
    pub file: Option<u32>,
    /// The line, from 1; 0 if unknown.
    pub line: u32,
}

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The site of the caller; 0 if this is the outermost.
    pub parent: u32,
    /// The frame, as an index of [`Stacks::frames`].
    pub frame: u32,
}

impl Frame {
    const CUT: u64 = 1;
    const LOST: u64 = 2;

    /// Returns the frame that stands for the callers of a stack that is deeper than requested.
    #[must_use]
    pub const fn cut() -> Self {
        Self { module: None, address: Self::CUT, lines: Vec::new() }
    }

    /// Returns the frame that stands for unknown callers.
    #[must_use]
    pub const fn lost() -> Self {
        Self { module: None, address: Self::LOST, lines: Vec::new() }
    }

    /// Returns whether it is [`cut`](Self::cut).
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.module.is_none() && self.address == Self::CUT
    }

    /// Returns whether it is [`lost`](Self::lost).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.module.is_none() && self.address == Self::LOST
    }
}

impl Stacks {
    /// Returns the nodes from a site to its outermost caller. A site beyond the tree has none.
    pub fn callers(&self, site: u32) -> impl Iterator<Item = Node> + '_ {
        let node = |site: u32| self.nodes.get((site as usize).checked_sub(1)?).copied();
        core::iter::successors(node(site), move |last| node(last.parent))
    }

    /// Encodes the stacks, to be compressed.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let number = |out: &mut Vec<u8>, value: u64| varint::write(out, value);
        let text = |out: &mut Vec<u8>, bytes: &[u8]| {
            number(out, bytes.len() as u64);
            out.extend(bytes);
        };
        number(&mut out, self.modules.len() as u64);
        for module in &self.modules {
            text(&mut out, module.path.as_bytes());
            text(&mut out, &module.build_id);
        }
        number(&mut out, self.names.len() as u64);
        for name in &self.names {
            text(&mut out, name.as_bytes());
        }
        let option = |index: Option<u32>| index.map_or(0, |index| u64::from(index) + 1);
        number(&mut out, self.frames.len() as u64);
        for frame in &self.frames {
            number(&mut out, option(frame.module));
            number(&mut out, frame.address);
            number(&mut out, frame.lines.len() as u64);
            for line in &frame.lines {
                number(&mut out, line.function.into());
                number(&mut out, option(line.file));
                number(&mut out, line.line.into());
            }
        }
        number(&mut out, self.nodes.len() as u64);
        for (site, node) in (1_u64..).zip(&self.nodes) {
            number(&mut out, site - 1 - u64::from(node.parent));
            number(&mut out, node.frame.into());
        }
        out
    }

    /// Decodes what [`encode`](Self::encode) returns; accepts any bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Reason> {
        let mut input = Input(bytes);
        let mut stacks = Self::default();
        for _ in 0..input.count()? {
            let path = input.text()?;
            stacks.modules.push(Module { path, build_id: input.bytes()?.to_vec() });
        }
        for _ in 0..input.count()? {
            stacks.names.push(input.text()?);
        }
        for _ in 0..input.count()? {
            let module = input.option(stacks.modules.len())?;
            let address = input.number()?;
            let lines = (0..input.count()?).map(|_| {
                Ok(Line {
                    function: input.index(stacks.names.len())?,
                    file: input.option(stacks.names.len())?,
                    line: u32::try_from(input.number()?).map_err(|_| bad("a line is too large"))?,
                })
            });
            let lines = lines.collect::<Result<_, Reason>>()?;
            stacks.frames.push(Frame { module, address, lines });
        }
        for site in 1..=input.count()? as u64 {
            let back = input.number()?;
            let parent = (site - 1).checked_sub(back).ok_or(bad("a caller does not exist"))?;
            let frame = input.index(stacks.frames.len())?;
            stacks.nodes.push(Node { parent: parent as u32, frame });
        }
        if !input.0.is_empty() {
            return Err(bad("extra data after the last"));
        }
        Ok(stacks)
    }
}

fn bad(what: &'static str) -> Reason {
    Reason::Stacks(what)
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn number(&mut self) -> Result<u64, Reason> {
        varint::read(&mut self.0).ok_or(bad("a number is cut short"))
    }

    /// Returns the number of items that follow, each at least a byte long.
    fn count(&mut self) -> Result<usize, Reason> {
        let count = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if count > self.0.len().min(MOST) {
            return Err(bad("there are fewer than claimed"));
        }
        Ok(count)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Reason> {
        let len = self.count()?;
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<String, Reason> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| bad("a name is not UTF-8"))
    }

    fn index(&mut self, len: usize) -> Result<u32, Reason> {
        let index = self.number()?;
        match u32::try_from(index) {
            Ok(index) if (index as usize) < len => Ok(index),
            _ => Err(bad("a name, module or frame does not exist")),
        }
    }

    fn option(&mut self, len: usize) -> Result<Option<u32>, Reason> {
        match self.index(len + 1)? {
            0 => Ok(None),
            index => Ok(Some(index - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Stacks {
        let line = |function, file, line| Line { function, file, line };
        Stacks {
            modules: vec![Module { path: "/bin/x".into(), build_id: vec![1, 2] }],
            names: vec!["main".into(), "f".into(), "x.rs".into()],
            frames: vec![
                Frame { module: Some(0), address: 100, lines: vec![line(0, Some(2), 7)] },
                Frame {
                    module: Some(0),
                    address: 200,
                    lines: vec![line(1, Some(2), 9), line(0, None, 0)],
                },
                Frame::cut(),
            ],
            nodes: vec![
                Node { parent: 0, frame: 0 },
                Node { parent: 1, frame: 1 },
                Node { parent: 1, frame: 2 },
            ],
        }
    }

    #[test]
    fn stacks_are_read_back() {
        for stacks in [some(), Stacks::default()] {
            assert_eq!(Stacks::decode(&stacks.encode()).unwrap(), stacks);
        }
        assert_eq!(some().callers(3).map(|node| node.frame).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(some().callers(0).count() + some().callers(9).count(), 0);
    }

    /// Frames that stand for missing callers have addresses that a module's frame may have, too.
    #[test]
    fn missing_callers_are_told_from_frames() {
        let shown = |frame: Frame| (frame.is_cut(), frame.is_lost());
        assert_eq!(shown(Frame::cut()), (true, false));
        assert_eq!(shown(Frame::lost()), (false, true));
        for address in 0..4 {
            let frame = Frame { module: Some(0), address, lines: Vec::new() };
            assert_eq!(shown(frame), (false, false), "{address}");
        }
        let elsewhere = Frame { module: None, address: 3, lines: Vec::new() };
        assert_eq!(shown(elsewhere), (false, false));
    }

    #[test]
    fn damage_is_an_error_and_takes_little_memory() {
        let bytes = some().encode();
        for len in 0..bytes.len() {
            assert!(Stacks::decode(&bytes[..len]).is_err(), "{len}");
        }
        for at in 0..bytes.len() {
            for value in 0..=0xff {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                let Ok(stacks) = Stacks::decode(&bytes) else { continue };
                for (site, node) in (1..).zip(&stacks.nodes) {
                    assert!(node.parent < site && (node.frame as usize) < stacks.frames.len());
                }
                for frame in &stacks.frames {
                    let module = frame.module.unwrap_or(0) as usize;
                    assert!(frame.module.is_none() || module < stacks.modules.len());
                    let names =
                        frame.lines.iter().flat_map(|line| [Some(line.function), line.file]);
                    assert!(names.flatten().all(|name| (name as usize) < stacks.names.len()));
                }
            }
        }
        let mut more = bytes.clone();
        more.push(0);
        assert!(Stacks::decode(&more).is_err());
        // 2^40 modules.
        assert!(Stacks::decode(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x20]).is_err());
    }
}
