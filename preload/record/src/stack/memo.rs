//! Keeps the stacks of recent walks, to make walks shorter: [`Memo`].
//!
//! A program allocates repeatedly at the same places, and most of its stack is the same as the last
//! time. Some walks are therefore kept, indexed by their innermost frames. A new walk goes frame by
//! frame until it meets a kept frame. The position of each further frame depends only on the one
//! before, so the kept positions are still right as long as the words on the stack match, and only
//! these need to be compared. From the first difference, the walk continues by the rules until it
//! meets a kept frame again.
//!
//! ```text
//!  kept, outermost first        main  run  parse  list  item
//!  this walk                                       │     atom  malloc
//!                               └──── compared ────┘└── new ──┘
//! ```
//! A memo does not belong to a single thread: a library that is loaded late cannot get thread-local
//! memory of this size. Each thread uses the memo that its number selects. If another thread is
//! using it, or a signal handler interrupts its use, the walk does without.

use pagewise_trace::raw::{DEEPEST, Outermost, Stack, StackFrame};

use super::readable::{Known, Readable};
use super::try_lock::{Held, TryLock};
use super::x86_64::{End, Frame};
use super::{known, loaded};
use crate::caller::Caller;

/// Number of memos, a power of two.
const MEMOS: usize = 32;
/// Number of walks in a memo, a power of two.
const WALKS: usize = 16;

static ALL: [TryLock<Kept>; MEMOS] = [const { TryLock::new(Kept::NOTHING) }; MEMOS];

/// The content of a memo. Starts as all zeros, so that unused memos take no memory.
struct Kept {
    /// The thread that used it last; 0 if none did.
    thread: u32,
    generation: u64,
    known: Known,
    walks: [Walk; WALKS],
    /// The frames found by the current walk, innermost first.
    new: [Frame; DEEPEST],
}

/// A kept walk: the first `len` entries of `frames`, outermost first.
struct Walk {
    len: usize,
    end: End,
    frames: [Hashed; DEEPEST],
}

/// A frame, with a hash of the stack from the outermost frame up to it.
#[derive(Clone, Copy)]
struct Hashed {
    frame: Frame,
    hash: u64,
}

/// A memo in use.
pub(super) struct Memo(Held<'static, Kept>);

impl Memo {
    /// Returns the memo of a thread, unless it is in use.
    #[inline]
    pub(super) fn of(thread: u32) -> Option<Self> {
        ALL[thread as usize % MEMOS].try_lock().map(Self)
    }

    /// Walks the stack, at most `depth` frames of it, and passes it to `tell`.
    #[inline]
    pub(super) fn walk(
        &mut self,
        thread: u32,
        depth: usize,
        generation: u64,
        caller: &Caller,
        tell: &mut dyn FnMut(&Stack<'_>),
    ) {
        let kept = &mut *self.0;
        if kept.generation != generation {
            kept.forget(generation);
        }
        let walk = kept.walk(thread, depth.min(DEEPEST), caller);
        let frames = &walk.frames[..walk.len];
        tell(&Stack {
            len: frames.len(),
            frame: &|at| StackFrame { address: frames[at].frame.address, hash: frames[at].hash },
            outermost: walk.end.outermost,
            generation,
            loaded: loaded::tell,
        });
    }
}

impl Kept {
    const NOTHING: Self = Self {
        thread: 0,
        known: Known::NONE,
        generation: 0,
        walks: [const { Walk::NONE }; WALKS],
        new: [Frame::ZERO; DEEPEST],
    };

    #[cold]
    fn forget(&mut self, generation: u64) {
        self.generation = generation;
        self.walks.iter_mut().for_each(|walk| walk.len = 0);
    }

    /// Walks from the caller on, and returns the walk.
    #[inline]
    fn walk(&mut self, thread: u32, depth: usize, caller: &Caller) -> &Walk {
        let main = known::main_stack(caller.stack);
        let known = main.unwrap_or(if self.thread == thread { self.known } else { Known::NONE });
        let mut readable = Readable::at(caller.stack, known);
        let Some(first) = Frame::first(caller, &mut readable) else {
            self.walks[0].len = 0;
            return &self.walks[0];
        };
        let place = (first.at >> 3 ^ first.address).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        let walk = &mut self.walks[place as usize % WALKS];
        walk.restart(self.generation, first, depth, &mut readable, &mut self.new);
        if main.is_none() {
            (self.thread, self.known) = (thread, known::of_thread(known, &mut readable));
        }
        walk
    }
}

impl Walk {
    const NONE: Self = Self {
        len: 0,
        end: End { outermost: Outermost::First, by_rule: false },
        frames: [Hashed { frame: Frame::ZERO, hash: 0 }; DEEPEST],
    };

    /// Replaces this walk by the one that starts at `first`.
    #[inline]
    fn restart(
        &mut self,
        generation: u64,
        first: Frame,
        depth: usize,
        readable: &mut Readable,
        new: &mut [Frame; DEEPEST],
    ) {
        let new = &mut new[..depth];
        let (mut frame, mut found) = (first, 0);
        // The number of kept frames that may still be on this stack.
        let mut may_stay = self.len;
        let stay = loop {
            let on_it = |kept: &Hashed| kept.frame.at >= frame.at;
            may_stay = self.frames[..may_stay].iter().rposition(on_it).map_or(0, |last| last + 1);
            let kept = &mut self.frames[..may_stay];
            if let Some(last) = kept.last()
                && last.frame.is(&frame)
            {
                let sure = compare(kept, &frame, readable);
                let all = found + may_stay;
                let fits = match self.end.outermost {
                    Outermost::Cut => all == depth,
                    _ => all <= depth && self.end.by_rule,
                };
                if sure == 0 && fits {
                    break may_stay;
                }
                // The frames from `sure` on match, so they are part of this walk, which continues
                // from the outermost of them.
                let (places, passed) = (&mut new[found..], self.frames[sure..may_stay].iter());
                let room = places.len();
                places.iter_mut().zip(passed.rev()).for_each(|(place, kept)| *place = kept.frame);
                if may_stay - sure > room {
                    found = depth;
                    self.end = CUT;
                    break 0;
                }
                found += may_stay - sure;
                frame = self.frames[sure].frame;
                may_stay = sure;
            } else if let Some(place) = new.get_mut(found) {
                *place = frame;
                found += 1;
            } else {
                self.end = CUT;
                break 0;
            }
            match frame.next(generation, readable) {
                Ok(next) => frame = next,
                Err(end) => {
                    self.end = end;
                    break 0;
                }
            }
        };
        self.replace_from(stay, &new[..found], generation);
    }

    /// Replaces the frames after the first `stay` by new ones, given innermost first, and hashes
    /// these.
    #[inline]
    fn replace_from(&mut self, stay: usize, new: &[Frame], generation: u64) {
        let mut hash = match stay.checked_sub(1) {
            Some(last) => self.frames[last].hash,
            None => Stack::seed(generation, self.end.outermost),
        };
        for (place, frame) in self.frames[stay..].iter_mut().zip(new.iter().rev()) {
            hash = Stack::hash_of(hash, frame.address);
            *place = Hashed { frame: *frame, hash };
        }
        self.len = stay + new.len();
    }
}

const CUT: End = End { outermost: Outermost::Cut, by_rule: false };

/// Compares kept frames with the stack; the last of them is known to be `frame`. Returns how many
/// of the outermost ones differ, or may differ, from the stack.
#[inline]
fn compare(kept: &mut [Hashed], frame: &Frame, readable: &mut Readable) -> usize {
    let [outer @ .., last] = kept else { return 0 };
    let mut rbp = last.frame.renew(frame);
    let mut left = outer.len();
    for Hashed { frame, .. } in outer.iter_mut().rev() {
        // SAFETY: the stack is readable up to this frame, which is above the one before.
        if !readable.reaches(frame.at) || !unsafe { frame.still_holds(&mut rbp) } {
            break;
        }
        left -= 1;
    }
    left
}
