//! The misuses. Each does one forbidden thing while the heap is in use, and reports when it is
//! done; the aftermath is the same for all ([`crate::aftermath`]).

use std::ptr;

use crate::c;
use crate::live::{self, Live};
use crate::stage;

pub(crate) struct Misuse {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn(&mut Live, Place),
}

/// What a misuse works with.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Size of each block, bytes.
    pub(crate) size: usize,
    /// The value written to memory that the program must not write: the address of memory of its
    /// own. An allocator that follows it as a link hands that memory out.
    pub(crate) planted: *mut u8,
    /// [`ON_STACK`] bytes of the main thread's stack.
    pub(crate) stack: *mut u8,
}

pub(crate) const ON_STACK: usize = 4096;

#[rustfmt::skip]
pub(crate) const MISUSES: &[Misuse] = &[
    misuse("double-free", "a block freed twice, at once", double_free),
    misuse("double-free-between", "a block freed twice, another freed in between", double_free_between),
    misuse("double-free-threads", "a block freed by one thread, then by another, which goes on allocating", double_free_threads),
    misuse("double-free-reused", "a block freed, eight of its size allocated, the first freed again", double_free_reused),
    misuse("interior", "a pointer 16 bytes into a block freed", interior),
    misuse("foreign", "a pointer freed that is not a block: into the stack, or into the program's own mapping", foreign),
    misuse("realloc-freed", "a freed block resized to twice its size", realloc_freed),
    misuse("overflow-1", "the byte past a block changed, which then is freed", overflow_1),
    misuse("overflow-64", "64 bytes written past a block, which then is freed", overflow_64),
    misuse("underflow-16", "16 bytes written before a block, which then is freed", underflow_16),
    misuse("write-freed", "64 bytes written into a freed block, and again after some allocations", write_freed),
    misuse("read-freed", "a freed block read, and blocks that are allocated then, for the old contents", read_freed),
];

/// No misuse. An allocator that stops this program rejects the program itself, so its other
/// outcomes mean nothing.
pub(crate) const CONTROL: Misuse = misuse("none", "no misuse", |live, place| {
    freed(live, place.size);
});

const fn misuse(name: &'static str, about: &'static str, run: fn(&mut Live, Place)) -> Misuse {
    Misuse { name, about, run }
}

/// Allocates ten blocks of this size in sequence.
fn row(live: &mut Live, size: usize) -> [*mut u8; 10] {
    [(); 10].map(|()| live.allocate(size))
}

/// Returns a block that the program has just freed.
fn freed(live: &mut Live, size: usize) -> *mut u8 {
    let block = row(live, size)[4];
    live.free(block);
    block
}

fn double_free(live: &mut Live, place: Place) {
    let block = freed(live, place.size);
    // SAFETY: none, this is the misuse; so are the marked calls below.
    unsafe { c::free(block) };
}

fn double_free_between(live: &mut Live, place: Place) {
    let row = row(live, place.size);
    live.free(row[4]);
    live.free(row[6]);
    // SAFETY: the misuse.
    unsafe { c::free(row[4]) };
}

fn double_free_threads(live: &mut Live, place: Place) {
    let block = freed(live, place.size).expose_provenance();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the misuse.
            unsafe { c::free(ptr::with_exposed_provenance_mut(block)) };
            live.fill(8, place.size);
        });
    });
}

fn double_free_reused(live: &mut Live, place: Place) {
    let block = freed(live, place.size);
    live.fill(8, place.size);
    // SAFETY: the misuse.
    unsafe { c::free(block) };
}

fn interior(live: &mut Live, place: Place) {
    let block = row(live, place.size)[4];
    // SAFETY: the misuse.
    unsafe { c::free(block.add(16)) };
}

fn foreign(live: &mut Live, place: Place) {
    row(live, place.size);
    let start = if place.size < ON_STACK { place.stack } else { mapping(place.size) };
    live.foreign(start, place.size);
    // SAFETY: the misuse.
    unsafe { c::free(start.add(32)) };
}

/// Maps memory from the system.
pub(crate) fn mapping(size: usize) -> *mut u8 {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
    // SAFETY: a fresh mapping.
    unsafe { libc::mmap(ptr::null_mut(), size, access, flags | libc::MAP_ANONYMOUS, -1, 0).cast() }
}

fn realloc_freed(live: &mut Live, place: Place) {
    let block = freed(live, place.size);
    // SAFETY: the misuse.
    let resized = unsafe { c::realloc(block, 2 * place.size) };
    if !resized.is_null() {
        live.enter(resized, 2 * place.size);
    }
}

fn overflow_1(live: &mut Live, place: Place) {
    beside(live, place, Side::Above, |block| {
        // SAFETY: the misuse.
        unsafe {
            let past = block.add(place.size);
            past.write_volatile(!past.read_volatile());
        }
    });
}

fn overflow_64(live: &mut Live, place: Place) {
    beside(live, place, Side::Above, |block| plant(block.wrapping_add(place.size), 64, place));
}

fn underflow_16(live: &mut Live, place: Place) {
    beside(live, place, Side::Below, |block| plant(block.wrapping_sub(16), 16, place));
}

/// The side of a block on which its neighbour is.
#[derive(Clone, Copy)]
enum Side {
    Below,
    Above,
}

/// Writes beyond a block, towards a neighbour as close as any, and frees the block: once with the
/// neighbour in use, once with it free.
fn beside(live: &mut Live, place: Place, side: Side, write: impl Fn(*mut u8)) {
    let count = if place.size > 1 << 20 { 10 } else { 40 };
    let mut blocks = live.fill(count, place.size);
    blocks.sort_unstable();
    let mut pairs: Vec<[*mut u8; 2]> = blocks.windows(2).map(|pair| [pair[0], pair[1]]).collect();
    pairs.sort_by_key(|[low, high]| high.addr() - low.addr());
    let first = pairs[0];
    let apart = |pair: &&[*mut u8; 2]| pair.iter().all(|block| !first.contains(block));
    let second = *pairs.iter().find(apart).expect("there are enough");
    for (pair, is_free) in [(first, false), (second, true)] {
        let [neighbour, block] = match side {
            Side::Below => pair,
            Side::Above => [pair[1], pair[0]],
        };
        if is_free {
            live.free(neighbour);
        }
        stage::access(|| write(block));
        live.free(block);
    }
}

/// Fills this memory with the planted address.
fn plant(start: *mut u8, len: usize, place: Place) {
    for offset in (0..len).step_by(8) {
        let word = start.wrapping_add(offset).cast::<u64>();
        // SAFETY: the misuse.
        unsafe { word.write_volatile(place.planted.addr() as u64) };
    }
}

fn write_freed(live: &mut Live, place: Place) {
    let block = freed(live, place.size);
    stage::access(|| plant(block, 64, place));
    stage::reached(stage::MISUSED);
    live.fill(if place.size > 1 << 20 { 8 } else { 64 }, place.size);
    stage::access(|| plant(block, 64, place));
}

/// Data that must not be readable after a free.
const SECRET: u64 = 0x5EC2_E75E_C2E7_5EC2;

fn read_freed(live: &mut Live, place: Place) {
    let block = row(live, place.size)[4];
    live.forget(block);
    live::write_all(block, place.size, SECRET);
    // SAFETY: the block is live.
    unsafe { c::free(block) };
    // SAFETY: the misuse.
    let mut old = stage::access(|| unsafe { live::contains(block, place.size, SECRET) });
    for _ in 0..if place.size > 1 << 20 { 8 } else { 64 } {
        let block = c::malloc(place.size);
        // SAFETY: the block is live; its contents may be anything.
        old |= unsafe { live::contains(block, place.size, SECRET) };
        live.enter(block, place.size);
    }
    live.seen = Some(if old { "old" } else { "cleared" });
}
