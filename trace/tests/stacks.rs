//! Traces with call stacks: a written trace reads back the same, and damage is detected.

use std::io::Cursor;

use pagewise_trace::stacks::{Frame, Line, Module, Node};
use pagewise_trace::{Event, Origin, ReadError, Reader, Stacks, WriteError, Writer};

fn stacks(nodes: u32) -> Stacks {
    Stacks {
        modules: vec![Module { path: "/bin/program".into(), build_id: vec![7; 20] }],
        names: vec!["main".into(), "main.rs".into()],
        frames: vec![
            Frame {
                module: Some(0),
                address: 0x1234,
                lines: vec![Line { function: 0, file: Some(1), line: 9 }],
            },
            Frame::lost(),
        ],
        nodes: (0..nodes).map(|parent| Node { parent, frame: parent % 2 }).collect(),
    }
}

/// Makes a trace of `count` blocks, each at the site that `site` returns.
fn trace(count: u32, stacks: &Stacks, site: impl Fn(u32) -> u32) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let mut writer = Writer::with_stacks(&mut file, Origin::default()).unwrap();
    for slot in 0..count {
        writer.write_at(Event::Allocate { slot, size: 10, align: 16 }, site(slot)).unwrap();
    }
    for slot in 0..count {
        writer.write_at(Event::Reallocate { slot, size: 20 }, site(slot) / 2).unwrap();
        writer.write(Event::Free { slot }).unwrap();
    }
    let (header, file) = writer.finish_into(0, stacks).unwrap();
    assert!(header.stacks);
    assert_eq!(file.position(), file.get_ref().len() as u64, "it stands after the trace");
    file.get_ref().clone()
}

fn read(file: &[u8]) -> Result<(Vec<u32>, Stacks), ReadError> {
    let mut reader = Reader::new(file)?.with_stacks();
    let mut sites = Vec::new();
    while let Some(event) = reader.next() {
        if !matches!(event?, Event::Free { .. }) {
            sites.push(reader.site());
        }
    }
    assert_eq!(reader.bytes_read(), file.len() as u64);
    Ok((sites, reader.take_stacks().unwrap()))
}

#[test]
fn sites_and_stacks_are_read_back() {
    // Enough for several frames, and none at all.
    for count in [0, 1, 700_000] {
        let (stacks, site) =
            (stacks(70_000), |slot: u32| slot.wrapping_mul(2_654_435_761) % 70_001);
        let file = trace(count, &stacks, site);
        let (sites, found) = read(&file).unwrap();
        assert!(found == stacks);
        let both = (0..count).map(site).chain((0..count).map(|slot| site(slot) / 2));
        assert!(sites == both.collect::<Vec<_>>());
        // A reader without stacks still reads the events.
        assert!(Reader::new(&file[..]).unwrap().all(|event| event.is_ok()));
    }
}

#[test]
fn a_site_that_is_not_in_the_tree_is_refused() {
    let mut writer = Writer::with_stacks(Cursor::new(Vec::new()), Origin::default()).unwrap();
    writer.write_at(Event::Allocate { slot: 0, size: 1, align: 1 }, 3).unwrap();
    assert!(writer.finish_with(0, &stacks(2)).is_err());
}

/// Nothing is written that a reader would refuse: of such stacks not a byte.
#[test]
fn stacks_that_no_reader_takes_are_refused() {
    type Change = fn(&mut Stacks);
    let cases: [(&str, Change); 10] = [
        ("a parent behind its node", |to| to.nodes[0].parent = 2),
        ("a node that is its own parent", |to| to.nodes[1].parent = 2),
        ("a parent beyond all nodes", |to| to.nodes[2].parent = u32::MAX),
        ("a node's frame", |to| to.nodes[1].frame = 2),
        ("a frame's module", |to| to.frames[1].module = Some(1)),
        ("the largest module", |to| to.frames[1].module = Some(u32::MAX)),
        ("a line's function", |to| to.frames[0].lines[0].function = 2),
        ("a line's file", |to| to.frames[0].lines[0].file = Some(2)),
        ("a long name", |to| to.names[1] = "x".repeat((1 << 23) + 1)),
        ("a long build id", |to| to.modules[0].build_id = vec![7; (1 << 23) + 1]),
    ];
    for (name, change) in cases {
        let mut changed = stacks(3);
        change(&mut changed);
        let mut file = Cursor::new(Vec::new());
        let mut writer = Writer::with_stacks(&mut file, Origin::default()).unwrap();
        writer.write_at(Event::Allocate { slot: 0, size: 1, align: 1 }, 3).unwrap();
        writer.tell_time(7);
        let before = writer.bytes_written();
        let result = writer.finish_with(0, &changed);
        assert!(matches!(result, Err(WriteError::BadStacks(_))), "{name}: {result:?}");
        assert_eq!(file.get_ref().len() as u64, before, "{name}");
    }
}

#[test]
fn no_more_nodes_are_written_than_are_read() {
    let finished = |nodes: u32| {
        let stacks = stacks(nodes);
        let mut file = Cursor::new(Vec::new());
        let writer = Writer::with_stacks(&mut file, Origin::default()).unwrap();
        writer.finish_with(0, &stacks).map(|_| (file.into_inner(), stacks))
    };
    let (file, most) = finished(1 << 23).unwrap();
    assert!(read(&file).unwrap() == (Vec::new(), most));
    assert!(matches!(finished((1 << 23) + 1), Err(WriteError::BadStacks(_))));
}

/// Eight names of 8 MiB, less the bytes for their lengths and the other counts, make 64 MiB.
#[test]
fn the_longest_stacks_are_read_back_and_no_longer_ones_are_written() {
    const NAME: usize = (1 << 23) - 4;
    let finished = |last: usize| {
        let mut names = vec!["x".repeat(NAME); 7];
        names.push("y".repeat(last));
        let stacks = Stacks { names, ..Stacks::default() };
        let mut file = Cursor::new(Vec::new());
        let writer = Writer::with_stacks(&mut file, Origin::default()).unwrap();
        writer.finish_with(0, &stacks).map(|_| (file.into_inner(), stacks))
    };
    let (file, longest) = finished(NAME - 4).unwrap();
    assert!(read(&file).unwrap() == (Vec::new(), longest));
    assert!(matches!(finished(NAME - 3), Err(WriteError::BadStacks(_))));
}

#[test]
fn a_trace_without_stacks_has_version_1() {
    let mut file = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut file, Origin::default()).unwrap();
    writer.write_at(Event::Allocate { slot: 0, size: 1, align: 1 }, 3).unwrap();
    assert!(!writer.finish_with(0, &stacks(2)).unwrap().stacks);
    let file = file.into_inner();
    assert_eq!(file[8..10], [1, 0]);
    let mut reader = Reader::new(&file[..]).unwrap().with_stacks();
    assert!(reader.by_ref().all(|event| event.is_ok()));
    assert!(reader.site() == 0 && reader.take_stacks().is_none());
}

#[test]
fn damage_is_detected() {
    let file = trace(100, &stacks(50), |slot| slot % 50);
    assert!(read(&file).is_ok());
    for len in 0..file.len() {
        assert!(read(&file[..len]).is_err(), "cut at {len}");
        let events = Reader::new(&file[..len]);
        assert!(events.is_err() || events.unwrap().any(|event| event.is_err()), "cut at {len}");
    }
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x20;
        assert!(read(&damaged).is_err(), "damaged at {at}");
    }
    let mut longer = file.clone();
    longer.extend([0; 4]);
    assert!(read(&longer).is_err());
}
