//! The trace file format: a written trace reads back the same, and any damage to a file is
//! detected.

use std::error::Error;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::path::Path;

use pagewise_trace::{
    Event, Ledger, Origin, ReadError, Reader, Reason, Slots, Stacks, WriteError, Writer,
};
use proptest::prelude::*;

/// A step of a random program, which becomes a valid event depending on the live blocks.
#[derive(Clone, Debug)]
enum Step {
    Allocate { size: u64, align_log2: u32 },
    Reallocate { which: usize, size: u64 },
    Free { which: usize },
    Thread { which: u32 },
    Tick { ticks: u64 },
}

fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..2000_u64, 2 => 0..1_u64 << 32, 1 => 0..1_u64 << 50]
}

fn requests() -> impl Strategy<Value = Vec<Step>> {
    let aligns = prop_oneof![4 => Just(4_u32), 1 => 0..32_u32];
    let step = prop_oneof![
        8 => (sizes(), aligns).prop_map(|(size, align_log2)| Step::Allocate { size, align_log2 }),
        2 => (any::<usize>(), sizes()).prop_map(|(which, size)| Step::Reallocate { which, size }),
        6 => any::<usize>().prop_map(|which| Step::Free { which }),
        1 => any::<u32>().prop_map(|which| Step::Thread { which }),
        1 => any::<u64>().prop_map(|ticks| Step::Tick { ticks }),
    ];
    prop::collection::vec(step, 0..400)
}

/// Returns the valid events among the steps.
fn events(steps: &[Step]) -> Vec<Event> {
    let (mut slots, mut live, mut threads) = (Slots::new(), Vec::new(), 1);
    let mut events = Vec::new();
    for step in steps {
        events.push(match *step {
            Step::Allocate { size, align_log2 } => {
                let slot = slots.take().unwrap();
                live.push(slot);
                Event::Allocate { slot, size, align: 1 << align_log2 }
            }
            Step::Reallocate { .. } | Step::Free { .. } if live.is_empty() => continue,
            Step::Reallocate { which, size } => {
                Event::Reallocate { slot: live[which % live.len()], size }
            }
            Step::Free { which } => {
                let slot = live.swap_remove(which % live.len());
                assert!(slots.free(slot));
                Event::Free { slot }
            }
            Step::Thread { which } => {
                let thread = which % (threads + 1);
                threads = threads.max(thread + 1);
                Event::Thread { thread }
            }
            Step::Tick { ticks } => Event::Tick { ticks },
        });
    }
    events
}

fn origin() -> Origin {
    Origin {
        program: "prög".into(),
        arguments: vec!["-x".into(), String::new()],
        date: 1_700_000_000,
        pointer_width: 64,
        note: "a note".into(),
    }
}

fn write(events: &[Event]) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut file, origin()).unwrap();
    for &event in events {
        writer.write(event).unwrap();
    }
    writer.finish().unwrap();
    file.into_inner()
}

fn read(file: &[u8]) -> Result<Vec<Event>, ReadError> {
    Reader::new(file)?.collect()
}

proptest! {
    #[test]
    fn a_written_trace_is_read_back(steps in requests()) {
        let events = events(&steps);
        let file = write(&events);
        let mut ledger = Ledger::new();
        events.iter().for_each(|&event| ledger.enter(event).unwrap());

        let header = Reader::new(&file[..]).unwrap().header().clone();
        prop_assert_eq!(&header.origin, &origin());
        prop_assert_eq!(header.events, events.len() as u64);
        prop_assert_eq!(header.threads, ledger.counts().threads);
        prop_assert_eq!(header.peak_blocks, ledger.counts().peak_blocks);
        prop_assert_eq!(header.peak_bytes, ledger.counts().peak_bytes);
        prop_assert!(!header.is_prefix());
        prop_assert_eq!(read(&file).unwrap(), events);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
    }

    /// Frames with correct checksums around arbitrary content.
    #[test]
    fn any_content_is_read_or_refused(content in prop::collection::vec(any::<u8>(), 1..300)) {
        let file = forge(&content, u64::MAX);
        prop_assert!(read(&file).is_err());
    }
}

/// The first thread needs no event, so there may be one more thread than events.
#[test]
fn a_trace_of_a_second_thread_alone_is_read_back() {
    let events = [Event::Thread { thread: 1 }];
    assert_eq!(read(&write(&events)).unwrap(), events);
}

#[test]
fn a_trace_of_the_largest_block_is_read_back() {
    let events = [Event::Allocate { slot: 0, size: i64::MAX as u64, align: 1 }];
    assert_eq!(read(&write(&events)).unwrap(), events);
}

/// Makes a file with one frame of this content, whose header claims `claimed` events, one thread,
/// and as many live blocks of 0 bytes as the events allow.
fn forge(content: &[u8], claimed: u64) -> Vec<u8> {
    forge_claiming(content, [claimed, claimed, claimed.min(1 << 28), 0], 1)
}

/// Makes a file with one frame of this content, whose header claims these events, recorded events,
/// live blocks and live bytes, and threads.
fn forge_claiming(content: &[u8], figures: [u64; 4], threads: u32) -> Vec<u8> {
    let mut file = write(&[]);
    for (place, figure) in (16..).step_by(8).zip(figures) {
        file[place..place + 8].copy_from_slice(&figure.to_le_bytes());
    }
    file[48..52].copy_from_slice(&threads.to_le_bytes());
    let body = file.len() - 4;
    let checksum = crc32fast::hash(&file[..body]);
    file[body..].copy_from_slice(&checksum.to_le_bytes());

    // A deflate stream with one stored block.
    let length = content.len() as u16;
    let mut stream = vec![1];
    stream.extend(length.to_le_bytes());
    stream.extend((!length).to_le_bytes());
    stream.extend(content);
    let mut frame = (stream.len() as u32).to_le_bytes().to_vec();
    frame.extend((content.len() as u32).to_le_bytes());
    frame.extend(stream);
    frame.extend(crc32fast::hash(&frame).to_le_bytes());
    file.extend(frame);
    file
}

/// Makes a file with a few frames of all kinds of events.
fn sample() -> Vec<u8> {
    let mut events = Vec::new();
    for round in 0..40_u64 {
        events.push(Event::Allocate { slot: 0, size: round * 37, align: 16 });
        events.push(Event::Thread { thread: (round % 2) as u32 });
        events.push(Event::Allocate { slot: 1, size: 1 << round, align: 1 << (round % 20) });
        events.push(Event::Reallocate { slot: 0, size: round * round });
        events.push(Event::Tick { ticks: round });
        events.push(Event::Free { slot: 1 });
        events.push(Event::Free { slot: 0 });
    }
    write(&events)
}

#[test]
fn every_truncation_is_an_error() {
    let file = sample();
    assert!(read(&file).is_ok());
    for length in 0..file.len() {
        let error = read(&file[..length]).unwrap_err();
        match error.reason() {
            Reason::NotATrace if length < 8 => {}
            Reason::Truncated if length >= 8 => {}
            _ => panic!("{length} bytes of {}: {error}", file.len()),
        }
    }
}

/// Input that comes byte by byte, each after an interruption, and that fails at its end.
struct Halting<'a> {
    bytes: &'a [u8],
    interrupted: bool,
}

impl Read for Halting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.interrupted = !self.interrupted;
        if self.interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match self.bytes.read(&mut buffer[..1])? {
            0 => Err(io::ErrorKind::BrokenPipe.into()),
            count => Ok(count),
        }
    }
}

#[test]
fn an_interrupted_input_is_read_on_and_a_broken_one_is_an_error() {
    let file = sample();
    let reader = Reader::new(Halting { bytes: &file, interrupted: false }).unwrap();
    let (events, errors): (Vec<_>, Vec<_>) = reader.partition(Result::is_ok);
    assert_eq!(events.len(), read(&file).unwrap().len());
    let [Err(error)] = &errors[..] else { panic!("{errors:?}") };
    let Reason::Io(cause) = error.reason() else { panic!("{error}") };
    assert_eq!(cause.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn every_flipped_bit_is_an_error() {
    let mut file = sample();
    for bit in 0..file.len() * 8 {
        file[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&file).is_err(), "bit {bit}");
        file[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(read(&file).is_ok());
}

/// (Regression: a file with a byte or two too many was said to end too early.)
#[test]
fn data_after_the_last_event_is_an_error() {
    let file = sample();
    for tail in [&[0][..], &[0; 100], &file] {
        let long = [&file[..], tail].concat();
        let error = read(&long).unwrap_err();
        assert!(matches!(error.reason(), Reason::Trailing), "{error}");
        assert_eq!(error.offset(), file.len() as u64);
    }
    // A valid frame.
    let other = forge(&[2], 1);
    let header = u32::from_le_bytes(other[12..16].try_into().expect("four bytes")) as usize;
    let error = read(&[&file[..], &other[header..]].concat()).unwrap_err();
    assert!(matches!(error.reason(), Reason::Trailing), "{error}");
}

#[test]
fn inconsistent_counts_are_an_error() {
    // Two allocations of 0 bytes, where one is claimed; one, where two are.
    let error = read(&forge(&[2, 2], 1)).unwrap_err();
    assert!(matches!(error.reason(), Reason::Trailing), "{error}");
    let error = read(&forge(&[2], 2)).unwrap_err();
    assert!(matches!(error.reason(), Reason::Truncated), "{error}");
    // As many events as claimed, but fewer live blocks.
    let error = read(&forge(&[2, 1, 2], 3)).unwrap_err();
    assert!(matches!(error.reason(), Reason::Claim { .. }), "{error}");
}

#[test]
fn no_event_that_exceeds_a_claim_is_returned() {
    // Sizes of 0 and 5 bytes, and the second thread.
    let cases: [(&[u8], _, u32, u64); 3] = [
        (&[2, 2, 2, 2], [4, 4, 2, 0], 1, 2),
        (&[2, 5 << 2 | 2, 2], [3, 3, 3, 4], 1, 1),
        (&[2, 2 << 2, 1, 2], [3, 3, 2, 0], 1, 1),
    ];
    for (content, figures, threads, good) in cases {
        let mut reader =
            Reader::new(Cursor::new(forge_claiming(content, figures, threads))).unwrap();
        let passed = reader.by_ref().take_while(Result::is_ok).count() as u64;
        assert_eq!(passed, good, "{figures:?}");
        let error = read(&forge_claiming(content, figures, threads)).unwrap_err();
        let Reason::Claim { claimed, found, .. } = error.reason() else { panic!("{error}") };
        assert!(found > claimed, "it names the figure that is exceeded: {error}");
    }
}

#[test]
fn an_impossible_header_is_refused() {
    let huge = 1 << 40;
    for (figures, threads) in [
        ([9, 9, 10, 0], 1),
        ([huge, huge, (1 << 28) + 1, 0], 1),
        ([9, 9, 9, u64::MAX], 1),
        ([9, 9, 0, 1], 1),
        ([9, 9, 9, 9], 11),
        ([9, 8, 9, 9], 1),
    ] {
        let error = read(&forge_claiming(&[2], figures, threads)).unwrap_err();
        assert!(matches!(error.reason(), Reason::Header(_)), "{error}");
    }
    for length in [0_u32, 59, 60, 63, 64, 67, (1 << 20) + 1, u32::MAX] {
        let mut file = sample();
        file[12..16].copy_from_slice(&length.to_le_bytes());
        let error = read(&file).unwrap_err();
        assert!(error.to_string().contains("its length is out of bounds"), "{length}: {error}");
    }
}

/// A file's bytes can expand to at most 1,032 times as many events.
#[test]
fn a_header_that_claims_more_events_than_the_file_can_hold_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let most = forge_claiming(&[2], [0, 0, 0, 0], 1).len() as u64 * 1032;
    for (claimed, refused) in [(most, false), (most + 1, true), (1 << 40, true)] {
        std::fs::write(file.path(), forge_claiming(&[2], [claimed, claimed, 1, 0], 1)).unwrap();
        let error = pagewise_trace::open(file.path()).err().map(|error| error.to_string());
        assert_eq!(error.is_some(), refused, "{error:?}");
        let expected = "more events than the file can hold";
        assert!(error.is_none_or(|error| error.contains(expected)));
    }
}

/// The writer's count matches the bytes in the file, frame by frame.
#[test]
fn bytes_written_are_in_the_file() {
    let file = tempfile::tempfile().unwrap();
    let mut writer = Writer::new(file.try_clone().unwrap(), origin()).unwrap();
    let mut lengths = vec![writer.bytes_written()];
    for round in 0..300_000_u64 {
        // Sizes that do not compress.
        let size = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
        writer.write(Event::Allocate { slot: 0, size, align: 16 }).unwrap();
        writer.write(Event::Free { slot: 0 }).unwrap();
        if writer.bytes_written() != lengths[lengths.len() - 1] {
            lengths.push(writer.bytes_written());
            assert_eq!(writer.bytes_written(), file.metadata().unwrap().len());
        }
    }
    assert!(lengths[0] > 60 && lengths.len() > 2, "{lengths:?}");
}

#[test]
fn errors_name_the_fault_and_the_position() {
    let forged = forge(&[2, 1, 1], 9);
    let error = read(&forged).unwrap_err();
    assert_eq!((error.event(), error.file()), (2, None));
    // The first frame is behind the header.
    let header = u32::from_le_bytes(forged[12..16].try_into().expect("four bytes"));
    assert_eq!(error.offset(), u64::from(header));
    assert_eq!(error.source().unwrap().to_string(), "no block is live in slot 0");
    assert!(
        error.to_string().starts_with("bad event: no block is live in slot 0 (after 2 events, at"),
        "{error}"
    );
    assert_eq!(read(b"hello").unwrap_err().to_string(), "not a pagewise trace");
    let missing = pagewise_trace::open("/no/such.pwt").err().unwrap();
    assert!(missing.to_string().starts_with("/no/such.pwt: No such file"), "{missing}");
    assert_eq!(missing.file(), Some(Path::new("/no/such.pwt")));
    assert!(missing.source().is_none());
    let mut future = sample();
    future[8] = 9;
    let error = read(&future).unwrap_err();
    assert!(error.to_string().starts_with("unknown trace format version 9"), "{error}");
}

#[test]
fn a_reader_and_a_writer_are_shown_without_their_data() {
    let mut writer = Writer::new(Cursor::new(Vec::new()), origin()).unwrap();
    let length = writer.bytes_written();
    for slot in 0..10_000 {
        writer.write(Event::Allocate { slot, size: 1, align: 1 }).unwrap();
    }
    let expected = format!("Writer {{ origin: {:?}, length: {length}, .. }}", origin());
    assert_eq!(format!("{writer:?}"), expected);
    let file = sample();
    let reader = Reader::new(&file[..]).unwrap();
    let expected = format!("Reader {{ file: None, header: {:?}, .. }}", reader.header());
    assert_eq!(format!("{reader:?}"), expected);
}

#[test]
fn long_traces_are_read_in_bounded_memory() {
    // Content of several frames; only a few blocks are live at any time.
    let mut file = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut file, Origin::default()).unwrap();
    for round in 0..400_000_u64 {
        let size = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        writer.write(Event::Allocate { slot: 0, size, align: 16 }).unwrap();
        writer.write(Event::Free { slot: 0 }).unwrap();
    }
    let header = writer.finish_prefix_of(1_000_000).unwrap();
    assert!(header.is_prefix());
    file.set_position(0);
    assert_eq!(Reader::new(file).unwrap().filter(|event| event.is_ok()).count(), 800_000);
}

/// The longest header has 1 MiB; each text has a length of four bytes, and the figures and the
/// checksum take 68.
#[test]
fn the_longest_header_is_read_back_and_no_longer_one_is_written() {
    let origin = |length| Origin { note: "x".repeat(length), ..Origin::default() };
    let longest = (1 << 20) - 68 - 2 * 4;
    let mut file = Cursor::new(Vec::new());
    Writer::new(&mut file, origin(longest)).unwrap().finish().unwrap();
    assert_eq!(file.get_ref().len(), 1 << 20);
    let reader = Reader::new(&file.get_ref()[..]).unwrap();
    assert_eq!(reader.header().origin, origin(longest));

    let too_long = Writer::new(Cursor::new(Vec::new()), origin(longest + 1));
    assert!(matches!(too_long, Err(WriteError::HeaderTooLong)));
}

/// An output that fails once, at the byte `at`.
struct Failing {
    file: Cursor<Vec<u8>>,
    at: Option<u64>,
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let before = self.at.map_or(u64::MAX, |at| at.saturating_sub(self.file.position()));
        match bytes.len().min(usize::try_from(before).unwrap_or(usize::MAX)) {
            0 => Err(io::Error::other(format!("full at {:?}", self.at.take()))),
            len => self.file.write(&bytes[..len]),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Failing {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// A program that goes on after an error must not take the rest for a trace.
#[test]
fn a_trace_is_lost_once_its_output_failed() {
    for at in [2_000, 1_500_000] {
        let out = Failing { file: Cursor::default(), at: Some(at) };
        let mut writer = Writer::new(out, Origin::default()).unwrap();
        // Two and a half frames.
        let ticks = (1..250_000_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let results: Vec<bool> =
            ticks.map(|ticks| writer.write(Event::Tick { ticks }).is_ok()).collect();
        let first = results.iter().position(|is_ok| !is_ok).expect("an error");
        assert!(results[first..].iter().all(|is_ok| !is_ok), "{at}");
        assert_eq!(writer.events(), first as u64 + 1, "{at}: later events are not counted");
        assert!(matches!(writer.finish(), Err(WriteError::Io(_))), "{at}");
    }
}

#[test]
fn a_trace_may_begin_anywhere_in_a_file() {
    let mut file = Cursor::new(b"before".to_vec());
    file.set_position(6);
    let mut writer = Writer::new(&mut file, origin()).unwrap();
    writer.write(Event::Tick { ticks: 5 }).unwrap();
    let (_, file) = writer.finish_into(0, &Stacks::default()).unwrap();
    let (before, trace) = file.get_ref().split_at(6);
    assert_eq!((before, file.position()), (&b"before"[..], 6 + trace.len() as u64));
    assert_eq!(read(trace).unwrap(), [Event::Tick { ticks: 5 }]);
}

#[test]
fn invalid_events_are_not_written() {
    let mut file = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut file, Origin::default()).unwrap();
    writer.write(Event::Allocate { slot: 0, size: 1, align: 1 }).unwrap();
    let error = writer.write(Event::Free { slot: 1 }).unwrap_err();
    assert_eq!(error.to_string(), "event 1: no block is live in slot 1");
    let counts = writer.counts();
    assert_eq!((counts.events, counts.peak_blocks, counts.peak_bytes), (1, 1, 1));
    writer.write(Event::Free { slot: 0 }).unwrap();
    assert_eq!(writer.finish().unwrap().events, 2);
    assert_eq!(read(file.get_ref()).unwrap().len(), 2);
}
