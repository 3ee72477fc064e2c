//! The lists of a thread: their layout in memory, which is the same in every thread, and how they
//! are made.

use core::cell::Cell;
use core::mem::{MaybeUninit, offset_of};
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};

use super::super::countdown::Countdown;
use super::ahead::Pace;
use super::list::List;
use super::waves;
use crate::global::native::base::apart::Apart;
use crate::global::native::base::mode;
use crate::global::native::base::sampler::Sampler;
use crate::global::native::base::sizes::{self, class_size, for_each};
use crate::global::native::heaps::heap::Heap;
use crate::global::tuning::Tuning;
use crate::os;

/// Words of eight bytes that a thread's lists may take without [wave places](super::waves): enough
/// for lists of two blocks each if every multiple of [`UNIT`](crate::global::tuning::UNIT) were a
/// class.
const MAX_WORDS: usize = (21 << 10) + MEDIUM / WORD;

const _: () = assert!(MAX_WORDS <= u16::MAX as usize, "the tables of sizes hold offsets");

/// Words of eight bytes that a thread's lists take.
static WORDS: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// Bytes from their start to the places of blocks.
static PLACES: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// Bytes from their start to the [wave places](super::waves).
static WAVE_PLACES: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// Bytes of a thread's own state in hardened mode, behind its lists and their [face].
pub(in crate::global::native) const OWN: usize = 20 << 10;

/// Bytes for a thread's [medium](super::super::medium) lists, which only the default mode uses.
pub(in crate::global::native) const MEDIUM: usize = 31424;

/// Stands in for the lists of a thread that has none: all zeros, so every list in it is a dummy.
/// Made of `AtomicU32` because not every target has atomics of eight bytes. The two extra words are
/// for [`gone`].
pub(in super::super) static EMPTY: EmptyLists =
    EmptyLists([const { AtomicU32::new(0) }; 2 * (MAX_WORDS + 2)]);

/// Room for the lists of a thread, in words of eight bytes, all zeros.
#[repr(align(16))]
pub(in super::super) struct EmptyLists(
    #[allow(dead_code, reason = "read through pointers to lists")] [AtomicU32; 2 * (MAX_WORDS + 2)],
);

/// Returns the stand-in for the lists of a thread that has none yet.
#[inline(always)]
pub(in crate::global::native) const fn empty() -> *mut Lists {
    (&raw const EMPTY).cast_mut().cast()
}

/// Returns the stand-in for the lists of a thread that has given up its own because it is about to
/// end.
pub(in crate::global::native) fn gone() -> *mut Lists {
    empty().wrapping_byte_add(16)
}

/// The quick lists of a thread, at the start of the memory that they take. Its size is an even
/// number of words of eight bytes.
#[derive(Debug)]
#[repr(C, align(16))]
pub(in crate::global::native) struct Lists {
    dummy: List,
    /// The thread's [medium](super::super::medium) lists.
    medium: Medium,
    /// The heap that the thread's blocks come from.
    heap: AtomicPtr<Heap>,
    /// State used while no thread has these lists.
    pub(in super::super) waiting: Waiting,
    /// The next in the chain of all threads' lists: those made before these.
    pub(in super::super) next: AtomicPtr<Lists>,
    /// Pops until the thread looks at the clock (so that one that only pops and pushes gives memory
    /// back as well), or until a block is guarded or sampled.
    pub(in crate::global::native) countdown: Countdown,
    /// Time of the last look at the clock in milliseconds, the lower 32 bits.
    pub(super) last_clock_read: Cell<u32>,
    /// The NUMA node that the thread was on at that look.
    node: Cell<u32>,
    /// Whether the distance to the first guarded block has been drawn.
    pub(super) guard_drawn: Cell<bool>,
    /// Slow frees of small blocks while the background thread was wanted.
    pub(super) frees_while_wanted: Cell<u8>,
    /// How fast the thread frees.
    pub(super) pace: Pace,
    /// In a [face], the lists that it belongs to; null in lists.
    face_of: AtomicPtr<Lists>,
    /// Decides which blocks are sampled.
    pub(in crate::global::native) sampler: Sampler,
}

/// State of lists that no thread has; see [`ended`](super::super::ended).
#[derive(Debug)]
pub(in crate::global::native) struct Waiting {
    /// The next in a chain of such lists, towards those whose threads ended earlier.
    pub(in super::super) next: AtomicPtr<Lists>,
    /// The next in the other direction, towards those whose threads ended later.
    pub(in super::super) newer: AtomicPtr<Lists>,
    /// Bytes on the lists; 0 while a thread has them.
    pub(in super::super) bytes: AtomicUsize,
    /// Whether the lists have blocks, or memory for their places; false while a thread has them.
    pub(in super::super) has_memory: AtomicBool,
    /// When their thread ended, in milliseconds, the lower 32 bits.
    pub(in super::super) since: AtomicU32,
    /// The token of the thread that has these lists or is putting their blocks back; 0 if there is
    /// none.
    pub(in super::super) holder: AtomicU32,
}

/// Room for a thread's medium lists; zeros at first.
#[derive(Debug)]
#[repr(align(16))]
struct Medium(
    #[allow(dead_code, reason = "used through pointers to lists")]
    [AtomicU32; MEDIUM / size_of::<AtomicU32>()],
);

const WORD: usize = size_of::<u64>();

/// Words from a list's head to its shadow. Heads have even offsets, so shadows have odd ones.
const SHADOW: u32 = sizes::STEP as u32 / 2;

const _: () = assert!(size_of::<List>() <= SHADOW as usize * WORD && SHADOW % 2 == 1);
const _: () = assert!(size_of::<Lists>() <= sizes::FIRST * WORD && sizes::FIRST.is_multiple_of(2));

/// Blocks up to which a list may keep twice the usual bytes. With lists of only two large blocks, a
/// program that uses three or more of them at a time would go to the heap for nearly each.
const FEW: u32 = 4;

/// Returns the bytes from the start of a thread's lists to the end of the heads, if there are
/// `lists` of them.
const fn end_of_heads(lists: usize) -> usize {
    sizes::offset_of_list(lists) as usize * WORD
}

/// Returns the blocks that each of `lists` lists has room for if the room is shared equally.
fn room(lists: usize) -> u32 {
    let places = (MAX_WORDS * WORD - end_of_heads(lists)) / size_of::<*mut u8>();
    (places / lists.max(1)).saturating_sub(1) as u32
}

/// Lays out the lists, one for each class of these sizes in bytes.
pub(in crate::global::native) fn open(
    tuning: &Tuning,
    classes: impl ExactSizeIterator<Item = usize>,
) {
    let lists = classes.len();
    PLACES.store(end_of_heads(lists), Relaxed);
    let mut count = 0;
    let counted =
        classes.inspect(|&size| count += places(capacity(tuning, size as u32, room(lists))));
    sizes::set_classes(counted, tuning.pages.ffcrossover);
    let usual = end_of_heads(lists) + count * size_of::<*mut u8>();
    debug_assert!(usual <= MAX_WORDS * WORD, "every class has a list");
    WAVE_PLACES.store(usual, Relaxed);
    let bytes = usual + waves::places(lists, count) * size_of::<*mut u8>();
    // The last places share no OS page with the face behind them.
    WORDS.store(bytes.next_multiple_of(os::page_size()) / WORD, Relaxed);
}

/// Returns the number of places of a list that takes `most` blocks: one more, for the null before
/// the first.
const fn places(most: u32) -> usize {
    most as usize + 1
}

/// Returns the blocks of `size` bytes that a list takes at most, where each list has room for
/// `room`; two at least.
fn capacity(tuning: &Tuning, size: u32, room: u32) -> u32 {
    let few = (tuning.quick_bytes.saturating_mul(2) / size).min(FEW);
    (tuning.quick_bytes / size).max(few).min(tuning.quick_blocks).min(room).max(2)
}

/// Returns the pointer by which a thread with these lists pops and pushes: the lists themselves, or
/// in hardened mode the [face](crate::global::native::hardened) behind them.
pub(in crate::global::native) fn face(lists: NonNull<Lists>) -> *mut Lists {
    let words = if mode::is_hardened() { WORDS.load(Relaxed) } else { 0 };
    lists.as_ptr().wrapping_byte_add(words * WORD)
}

/// Returns the lists that belong to this face, or `face` itself if it is lists already.
pub(in crate::global::native) fn of_face(face: *mut Lists) -> *mut Lists {
    behind_face(face).map_or(face, |(lists, _)| lists)
}

/// Returns whether these only stand in for the lists of a thread that has none ([`empty`] or
/// [`gone`]).
#[inline(always)]
pub(in crate::global::native) fn is_none(lists: *mut Lists) -> bool {
    // Both are at the start of `EMPTY`.
    lists.addr().wrapping_sub(empty().addr()) < size_of::<EmptyLists>()
}

/// Returns the lists that belong to this face, and the thread's other state, which is as far behind
/// the face as the lists are before it; `None` if `face` is no face, but lists.
#[inline(always)]
pub(in crate::global::native) fn behind_face(face: *mut Lists) -> Option<(*mut Lists, *mut u8)> {
    // SAFETY: a thread's pointer leads to lists, a face or `EMPTY`, and none of these is ever
    // freed.
    let lists = unsafe { (*face).face_of.load(Relaxed) };
    (!lists.is_null()).then(|| (lists, face.wrapping_byte_add(face.addr() - lists.addr()).cast()))
}

/// Returns the address of the [medium](super::super::medium) lists in these lists.
#[inline(always)]
pub(in crate::global::native) fn medium(lists: *mut Lists) -> *mut u8 {
    lists.wrapping_byte_add(offset_of!(Lists, medium)).cast()
}

/// Returns the shadow of a list: the dummy list of the same class.
pub(in crate::global::native) fn shadow(list: u32) -> u32 {
    list + SHADOW
}

/// Returns the list of a block whose entry names that list or its shadow.
#[inline(always)]
pub(in crate::global::native) fn unshadowed(list: u32) -> u32 {
    if list & 1 == 1 { list - SHADOW } else { list }
}

/// Makes the lists of one more thread, all empty; `None` if there is no memory for them. `tuning`
/// is that by which the lists were [laid out](open).
pub(in crate::global::native) fn make(tuning: &Tuning) -> Option<NonNull<Lists>> {
    let words = WORDS.load(Relaxed);
    let besides = if mode::is_hardened() { words * WORD + OWN } else { 0 };
    let bytes = words * WORD + besides.next_multiple_of(os::page_size());
    let made = NonNull::new(os::allocate(bytes)?.cast::<Lists>())?;
    let lists = made.as_ptr();
    let heads = PLACES.load(Relaxed);
    let room = room((heads / WORD - sizes::FIRST) / sizes::STEP);
    let mut bottom = heads / size_of::<*mut u8>();
    let mut class = 0;
    for_each(|offset| {
        let size = class_size(offset);
        let most = capacity(tuning, size as u32, room);
        let (list, shadow) = (at(lists, offset), at(lists, shadow(offset)));
        // SAFETY: the memory is fresh, and has room for a head at every offset of the table, and
        // for its shadow behind it; zeros are a valid head.
        unsafe {
            for list in [list, shadow] {
                (&raw mut (*list).size).write(size as u16);
                (&raw mut (*list).class).write(class);
            }
            (&raw mut (*list).most).write(most as u16);
            (*list).move_to(bottom as u32);
            (*list).set_count(0);
            (*list).narrow();
        }
        bottom += places(most);
        class += 1;
    });
    if mode::is_hardened() {
        // SAFETY: the face's memory is fresh, and no other thread knows it yet.
        unsafe { (*face(made)).face_of.store(lists, Relaxed) };
    }
    Some(made)
}

/// Returns the OS pages that hold nothing but places: their address and length in bytes.
pub(in super::super) fn pages_of_places(lists: NonNull<Lists>) -> (*mut u8, usize) {
    let start = PLACES.load(Relaxed).next_multiple_of(os::page_size());
    let end = WORDS.load(Relaxed) * WORD;
    (lists.as_ptr().wrapping_byte_add(start).cast(), end.saturating_sub(start))
}

/// Returns the address of the head of the list at this offset.
#[inline(always)]
pub(super) fn at(lists: *mut Lists, offset: u32) -> *mut List {
    lists.wrapping_byte_add(offset as usize * WORD).cast()
}

/// Returns the address of a list's first block.
///
/// # Safety
/// The list is one of these.
#[inline(always)]
pub(super) unsafe fn blocks(lists: *mut Lists, list: *mut List) -> *mut MaybeUninit<NonNull<u8>> {
    // SAFETY: the caller guarantees that it is a list.
    entry(lists, unsafe { (*list).bottom() } + 1).cast()
}

/// Returns the place before the first of a list's [wave places](super::waves), if it is not there
/// yet. They lie in the order of the usual ones.
pub(super) fn wave_bottom(list: &List) -> Option<u32> {
    let place = |bytes: &AtomicUsize| (bytes.load(Relaxed) / size_of::<*mut u8>()) as u32;
    let (usual, first) = (place(&PLACES), place(&WAVE_PLACES));
    (list.bottom() < first).then(|| {
        let before = (list.bottom() - usual) as usize;
        first + waves::places(list.class.into(), before) as u32
    })
}

/// Returns the address of a place of a thread's lists.
#[inline(always)]
pub(super) fn entry(lists: *mut Lists, place: u32) -> *mut *mut u8 {
    lists.cast::<*mut u8>().wrapping_add(place as usize)
}

impl Lists {
    /// Returns whether the thread's blocks come from this heap; `false` for lists that have no heap
    /// yet.
    pub(in super::super) fn has_heap(&self, heap: &Heap) -> bool {
        ptr::eq(self.heap.load(Relaxed), heap)
    }

    /// Returns the heap of the last thread that had these lists, if one had.
    pub(in super::super) fn last_heap(&self) -> Option<&'static Heap> {
        // SAFETY: heaps are never destroyed.
        unsafe { self.heap.load(Relaxed).as_ref() }
    }

    /// Returns the heap that the thread's blocks come from.
    pub(in crate::global::native) fn heap(&self) -> &'static Heap {
        // SAFETY: lists in use have a heap, and heaps are never destroyed.
        unsafe { &*self.heap.load(Relaxed) }
    }

    /// Notes the NUMA node that the thread is on; returns whether it was there at the last look as
    /// well.
    pub(in super::super) fn note_node(&self, node: u32) -> bool {
        self.node.replace(node) == node
    }

    pub(in super::super) fn set_heap(&self, heap: &'static Heap) {
        self.heap.store(ptr::from_ref(heap).cast_mut(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global::tuning::{SMALL_MAX, UNIT};

    /// A list keeps its bytes, or twice as many if that is only a few blocks; a lower setting is
    /// respected.
    #[test]
    fn few_large_blocks_take_twice_the_bytes() {
        let of = |bytes, blocks, size| {
            let tuning = Tuning { quick_bytes: bytes, quick_blocks: blocks, ..Tuning::new() };
            capacity(&tuning, size, 200)
        };
        assert_eq!([16, 1024, 4096, 8160].map(|size| of(32 << 10, 256, size)), [200, 32, 8, 4]);
        assert_eq!([10_000, 12_288, 16_352].map(|size| of(32 << 10, 256, size)), [4, 4, 4]);
        assert_eq!([16, 200, 10_000].map(|size| of(1 << 10, 256, size)), [64, 5, 2]);
        assert_eq!([16, 10_000].map(|size| of(32 << 10, 3, size)), [3, 3]);
        assert_eq!(of(u32::MAX, 256, 16_352), 200);
    }

    /// A thread's lists have as much room as the tuning says, and the last ends in the last OS page
    /// of the memory.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn lists_have_the_room_of_their_class() {
        let heap = super::super::super::registry::heap_for_test();
        let tuning = Tuning::new();
        let lists = make(&tuning).expect("there is memory").as_ptr();
        let mut offsets = Vec::new();
        for_each(|offset| offsets.push(offset));
        let mut place = end_of_heads(offsets.len()) / size_of::<*mut u8>();
        for (class, &offset) in offsets.iter().enumerate() {
            assert_eq!(offset as usize * WORD, end_of_heads(class));
            // SAFETY: the list was just made.
            let list = unsafe { &*at(lists, offset) };
            let most = capacity(&tuning, list.size.into(), room(offsets.len()));
            assert_eq!(u32::from(list.most), most, "{}", list.size);
            assert_eq!(list.bottom() as usize, place);
            place += 1 + most as usize;
        }
        // SAFETY: the lists were just made.
        let in_waves = |&offset: &u32| unsafe { wave_bottom(&*at(lists, offset)) };
        let count = place - end_of_heads(offsets.len()) / size_of::<*mut u8>();
        for (&offset, next) in offsets.iter().zip(offsets[1..].iter().map(in_waves).chain([None])) {
            // SAFETY: the list was just made.
            let most = waves::room(unsafe { (*at(lists, offset)).most }.into());
            let end = next.unwrap_or((place + waves::places(offsets.len(), count)) as u32);
            assert!(in_waves(&offset).is_some_and(|bottom| bottom + most < end), "{offset}");
        }
        let place = place + waves::places(offsets.len(), count);
        let words = (place * size_of::<*mut u8>()).next_multiple_of(os::page_size()) / WORD;
        assert_eq!(words, WORDS.load(Relaxed));

        // SAFETY: the lists were just made, and nobody else knows them.
        let lists = unsafe { &*lists };
        assert!(!lists.has_heap(heap) && lists.last_heap().is_none());
        lists.set_heap(heap);
        assert!(lists.has_heap(heap) && ptr::eq(lists.heap(), heap));
        assert!(lists.last_heap().is_some_and(|last| ptr::eq(last, heap)));
        assert!(!lists.has_heap(super::super::super::registry::heap_for_test()), "another one");
    }

    /// Threads without lists point into the zeros, and threads with lists do not.
    #[test]
    fn no_lists_lie_in_the_zeros() {
        let end = empty().wrapping_byte_add(size_of::<EmptyLists>());
        assert!([empty(), gone(), end.wrapping_byte_sub(1)].iter().all(|&lists| is_none(lists)));
        assert!([end, empty().wrapping_byte_sub(1)].iter().all(|&lists| !is_none(lists)));
    }

    /// Lists get as much room as fits, two blocks at least, however many classes there are.
    #[test]
    fn lists_share_the_room_there_is() {
        for lists in 1..=SMALL_MAX / UNIT {
            let fits = |room: u32| {
                let places = lists * (1 + room as usize) * size_of::<*mut u8>();
                end_of_heads(lists) + places <= MAX_WORDS * WORD
            };
            let room = room(lists);
            assert!(room >= 2 && fits(room) && !fits(room + 1), "{lists}");
        }
    }
}
