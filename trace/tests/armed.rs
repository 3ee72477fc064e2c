//! A recorder that is armed by a request in its memory, as one that was loaded into a running
//! process, and that records call stacks.
#![cfg(target_os = "linux")]

use std::os::unix::ffi::OsStrExt;

use pagewise_trace::raw::{self, Loaded, Outermost, Record, Request, Stack};
use pagewise_trace::stacks::{Frame, Module};

/// Calls back with the one loaded file, if the address is in it.
fn loaded(address: u64, tell: &mut dyn FnMut(&Loaded<'_>)) {
    let (start, end) = (0x2000, 0x3000);
    if (start..end).contains(&address) {
        let (directory, path) = (&b"/home"[..], &b"lib/d.so"[..]);
        tell(&Loaded { start, end, bias: 0x1800, build_id: &[7; 20], directory, path });
    }
}

/// Records an allocation at a stack of these return addresses, outermost first. Returns the number
/// of frames that were asked for, or `None` if there was no need for a stack.
fn record_at(block: u64, addresses: &[u64], outermost: Outermost) -> Option<usize> {
    let mut asked = None;
    let record = Record::Allocated { address: block, size: 10, align_log2: 4 };
    raw::record_at(7, record, |depth, tell| {
        asked = Some(depth);
        let frames: Vec<_> = Stack::frames(0, outermost, addresses.iter().copied()).collect();
        let frame = |at: usize| frames[at];
        tell(&Stack { len: frames.len(), frame: &frame, outermost, generation: 0, loaded });
    });
    asked
}

/// (One test, since a process is armed once.)
#[test]
fn a_request_arms_the_recorder() {
    let directory = tempfile::tempdir().unwrap();
    let functions = std::array::from_fn(|index| index as u64 + 5);
    let path = directory.path().as_os_str().as_bytes();
    let request = Request { functions, max_log: None, stacks: 3, directory: path };
    let words = request.to_words().unwrap();
    assert_eq!(raw::arm(|_| 0), None, "there is no request");
    assert_eq!(raw::arm(|at| words[at]), Some(functions));

    assert_eq!(raw::stack_depth(), 3);
    // The last one does not fit a word.
    for (block, outermost) in [(16, Outermost::First), (32, Outermost::Cut), (9, Outermost::Lost)] {
        assert_eq!(record_at(block, &[0x1000, 0x2345], outermost), Some(3));
    }
    raw::record(8, Record::Freeing { address: 16 });
    let log = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    raw::stop(&log).unwrap();
    assert_eq!(raw::stack_depth(), 3, "the recorder has not noticed yet");
    raw::record(8, Record::Freeing { address: 32 });
    assert_eq!((raw::stack_depth(), record_at(48, &[], Outermost::First)), (0, None));

    let mut reader = raw::open(&log).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next() {
        records.push((record.unwrap(), reader.site()));
    }
    let stacks = reader.stacks().unwrap();
    let [(first, a), (second, b), (third, c), (free, 0)] = records[..] else {
        panic!("{records:?}")
    };
    let allocated = |address| (7, Record::Allocated { address, size: 10, align_log2: 4 });
    assert_eq!([first, second, third], [16, 32, 9].map(allocated));
    assert_eq!(free, (8, Record::Freeing { address: 16 }));

    let module = Module { path: "/home/lib/d.so".into(), build_id: vec![7; 20] };
    assert_eq!(stacks.modules, [module]);
    let inner = Frame { module: Some(0), address: 0x2345 - 0x1800, lines: Vec::new() };
    let outer = Frame { module: None, address: 0x1000, lines: Vec::new() };
    for (site, beyond) in [(a, None), (b, Some(Frame::cut())), (c, Some(Frame::lost()))] {
        let frames = stacks.callers(site).map(|node| stacks.frames[node.frame as usize].clone());
        let expected = [inner.clone(), outer.clone()].into_iter().chain(beyond);
        assert!(frames.eq(expected), "{site}");
    }
}
