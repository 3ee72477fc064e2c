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
    /// Returns the nodes from a site to its outermost caller. A site beyond the tree has none. They
    /// end at a node whose parent does not come before it, which no trace has.
    pub fn callers(&self, site: u32) -> impl Iterator<Item = Node> + '_ {
        let mut site = site;
        core::iter::from_fn(move || {
            let node = *self.nodes.get((site as usize).checked_sub(1)?)?;
            site = if node.parent < site { node.parent } else { 0 };
            Some(node)
        })
    }

    /// Encodes the stacks, to be compressed.
    ///
    /// # Errors
    /// Why [`decode`](Self::decode) would refuse them.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, &'static str> {
        let mut out = Output(Vec::new());
        out.count(self.modules.len())?;
        for module in &self.modules {
            out.bytes(module.path.as_bytes())?;
            out.bytes(&module.build_id)?;
        }
        out.count(self.names.len())?;
        for name in &self.names {
            out.bytes(name.as_bytes())?;
        }
        out.count(self.frames.len())?;
        for frame in &self.frames {
            self.check_frame(frame)?;
            out.option(frame.module);
            out.number(frame.address);
            out.count(frame.lines.len())?;
            for line in &frame.lines {
                out.number(line.function.into());
                out.option(line.file);
                out.number(line.line.into());
            }
        }
        out.count(self.nodes.len())?;
        for (before, &node) in (0..).zip(&self.nodes) {
            self.check_node(before, node)?;
            out.number((before - node.parent).into());
            out.number(node.frame.into());
        }
        if out.0.len() > LONGEST { Err(TOO_LONG) } else { Ok(out.0) }
    }

    /// Decodes what [`encode`](Self::encode) returns; accepts any bytes.
    ///
    /// # Errors
    /// Why they are not that.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
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
            let module = input.option()?;
            let address = input.number()?;
            let lines = (0..input.count()?).map(|_| {
                Ok(Line { function: input.index()?, file: input.option()?, line: input.index()? })
            });
            let frame = Frame { module, address, lines: lines.collect::<Result<_, _>>()? };
            stacks.check_frame(&frame)?;
            stacks.frames.push(frame);
        }
        for before in 0..input.count()? as u32 {
            let back = input.index()?;
            let parent = before.checked_sub(back).ok_or(NO_CALLER)?;
            let node = Node { parent, frame: input.index()? };
            stacks.check_node(before, node)?;
            stacks.nodes.push(node);
        }
        if !input.0.is_empty() {
            return Err("extra data after the last");
        }
        Ok(stacks)
    }

    /// Checks that a site is 0 or a node.
    pub(crate) fn check_site(&self, site: u32) -> Result<(), &'static str> {
        let exists = site as usize <= self.nodes.len();
        exists.then_some(()).ok_or("an event names a site that does not exist")
    }

    /// Checks a frame's module and names.
    fn check_frame(&self, frame: &Frame) -> Result<(), &'static str> {
        let is_in = |index: Option<u32>, len| index.is_none_or(|index| (index as usize) < len);
        let names = self.names.len();
        let are_in = |line: &Line| is_in(Some(line.function), names) && is_in(line.file, names);
        if is_in(frame.module, self.modules.len()) && frame.lines.iter().all(are_in) {
            Ok(())
        } else {
            Err("a name or module does not exist")
        }
    }

    /// Checks the parent and frame of a node with this many before it.
    fn check_node(&self, before: u32, node: Node) -> Result<(), &'static str> {
        if node.parent > before {
            Err(NO_CALLER)
        } else if node.frame as usize >= self.frames.len() {
            Err("a frame does not exist")
        } else {
            Ok(())
        }
    }
}

/// Why stacks of more than [`LONGEST`] bytes are refused.
pub(crate) const TOO_LONG: &str = "they take more than 64 MiB";
const TOO_MANY: &str = "a list or a name is longer than 2^23";
const NO_CALLER: &str = "a caller does not exist";

struct Output(Vec<u8>);

impl Output {
    fn number(&mut self, value: u64) {
        varint::write(&mut self.0, value);
    }

    /// Writes the number of items that follow.
    fn count(&mut self, count: usize) -> Result<(), &'static str> {
        if count > MOST {
            return Err(TOO_MANY);
        }
        self.number(count as u64);
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        self.count(bytes.len())?;
        self.0.extend(bytes);
        Ok(())
    }

    fn option(&mut self, index: Option<u32>) {
        self.number(index.map_or(0, |index| u64::from(index) + 1));
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn number(&mut self) -> Result<u64, &'static str> {
        varint::read(&mut self.0).ok_or("a number is cut short")
    }

    /// Returns the number of items that follow, each at least a byte long.
    fn count(&mut self) -> Result<usize, &'static str> {
        let count = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        match count {
            0..=MOST if count > self.0.len() => Err("there are fewer than claimed"),
            0..=MOST => Ok(count),
            _ => Err(TOO_MANY),
        }
    }

    fn bytes(&mut self) -> Result<&'a [u8], &'static str> {
        let len = self.count()?;
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<String, &'static str> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| "a name is not UTF-8")
    }

    fn index(&mut self) -> Result<u32, &'static str> {
        self.number()?.try_into().map_err(|_| "a number is too large")
    }

    fn option(&mut self) -> Result<Option<u32>, &'static str> {
        match self.number()?.checked_sub(1) {
            None => Ok(None),
            Some(index) => index.try_into().map(Some).map_err(|_| "a number is too large"),
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
            assert_eq!(Stacks::decode(&stacks.encode().unwrap()).unwrap(), stacks);
        }
        assert_eq!(some().callers(3).map(|node| node.frame).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(some().callers(0).count() + some().callers(9).count(), 0);
    }

    /// Regression: the iterator never ended where a frame was its own caller, directly or not.
    #[test]
    fn callers_in_a_circle_end() {
        let mut stacks = some();
        for (node, expected) in [(0, &[2, 0][..]), (2, &[2])] {
            stacks.nodes[node].parent = 3;
            let frames = stacks.callers(3).map(|node| node.frame);
            assert_eq!(frames.take(9).collect::<Vec<_>>(), expected);
        }
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
        let bytes = some().encode().unwrap();
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
