//! The stacks that were walked last: [`Memo`].
//!
//! A program allocates at the same places again and again, and most of a stack is as it was the last time. So the
//! frames of some walks are kept, by their innermost ones. A walk goes frame by frame until it comes to one of those
//! kept; the others lie where they lay, since nothing but the frame before tells where the next one lies, and need
//! to be compared with their words on the stack only. Where one differs the walk goes on by the rules, until it
//! comes to a kept one again.
//!
//! ```text
//!  kept, the outermost first    main  run  parse  list  item
//!  this walk                                       │     atom  malloc
//!                               └──── compared ────┘└── new ──┘
//! ```
//! A memo is no thread's own: thread-local memory of this size cannot be had for a library that is loaded later. Each
//! thread uses the one of its number, and goes without while another one uses it, or a signal handler comes between.

use pagewise_trace::raw::{DEEPEST, Outermost, Stack, StackFrame};

use super::readable::{Known, Readable};
use super::try_lock::{Held, TryLock};
use super::x86_64::{End, Frame};
use super::{known, loaded};
use crate::caller::Caller;

/// Memos, a power of two.
const MEMOS: usize = 32;
/// Walks that one keeps, a power of two.
const WALKS: usize = 16;

static ALL: [TryLock<Kept>; MEMOS] = [const { TryLock::new(Kept::NOTHING) }; MEMOS];

/// All zeros at first, so that what is not used takes no memory.
struct Kept {
    /// The thread that used it last; 0: none.
    thread: u32,
    generation: u64,
    known: Known,
    walks: [Walk; WALKS],
    /// The frames that this walk found, the innermost first.
    new: [Frame; DEEPEST],
}

/// A walk. The first `len` frames are its, the outermost first.
struct Walk {
    len: usize,
    end: End,
    frames: [Hashed; DEEPEST],
}

/// A frame, and the identity of the stack up to it.
#[derive(Clone, Copy)]
struct Hashed {
    frame: Frame,
    hash: u64,
}

/// A memo in use.
pub(super) struct Memo(Held<'static, Kept>);

impl Memo {
    /// The memo of a thread, unless it is in use.
    #[inline]
    pub(super) fn of(thread: u32) -> Option<Self> {
        ALL[thread as usize % MEMOS].try_lock().map(Self)
    }

    /// Walks a stack, at most `depth` frames of it, and passes it on.
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

    /// Walks from a caller on.
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
        walk.go(self.generation, first, depth, &mut readable, &mut self.new);
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

    /// Becomes the walk from a frame on.
    #[inline]
    fn go(
        &mut self,
        generation: u64,
        first: Frame,
        depth: usize,
        readable: &mut Readable,
        new: &mut [Frame; DEEPEST],
    ) {
        let new = &mut new[..depth];
        let (mut frame, mut found) = (first, 0);
        // Those kept that may be on this stack.
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
                // From the one that differs on they are walked; those before it were.
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
        // The new ones stand behind those that stay.
        let mut hash = match stay.checked_sub(1) {
            Some(last) => self.frames[last].hash,
            None => Stack::seed(generation, self.end.outermost),
        };
        for (place, frame) in self.frames[stay..].iter_mut().zip(new[..found].iter().rev()) {
            hash = Stack::hash_of(hash, frame.address);
            *place = Hashed { frame: *frame, hash };
        }
        self.len = stay + found;
    }
}

const CUT: End = End { outermost: Outermost::Cut, by_rule: false };

/// Compares frames that were kept with the stack, of which the last is known to be `frame`; how many of them, the
/// outermost, differ from it or may.
#[inline]
fn compare(kept: &mut [Hashed], frame: &Frame, readable: &mut Readable) -> usize {
    let [outer @ .., last] = kept else { return 0 };
    let mut rbp = last.frame.renew(frame);
    let mut left = outer.len();
    for Hashed { frame, .. } in outer.iter_mut().rev() {
        // SAFETY: the stack can be read up to this frame, which lies beyond the one before.
        if !readable.reaches(frame.at) || !unsafe { frame.still_holds(&mut rbp) } {
            break;
        }
        left -= 1;
    }
    left
}
