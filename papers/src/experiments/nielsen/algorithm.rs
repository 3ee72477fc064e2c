//! The 35 algorithms over a fixed memory, by name.

use pagewise::Strategy;
use pagewise::catalogue::nielsen::*;
use pagewise::meter::Meter;
use pagewise::source::Reserved;

/// Bytes of the paper's word.
pub(super) const WORD: usize = 4;

/// One of the algorithms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Algorithm {
    /// Its number in the paper.
    pub(crate) name: &'static str,
    /// Builds the algorithm over a memory of this many words.
    pub(super) plain: fn(usize) -> Box<dyn Strategy>,
    /// The same, reporting to a meter.
    pub(super) metered: for<'m> fn(usize, &'m dyn Meter) -> Box<dyn Strategy + 'm>,
}

macro_rules! algorithms {
    ($($name:literal $algorithm:ident)*) => {
        [$(Algorithm {
            name: $name,
            plain: |words| {
                let memory = Reserved::new($algorithm::<Reserved>::region_for(words));
                Box::new($algorithm::new(words * WORD, memory, ()))
            },
            metered: |words, meter| {
                let memory = Reserved::new($algorithm::<Reserved>::region_for(words));
                Box::new($algorithm::new(words * WORD, memory, meter))
            },
        }),*]
    };
}

/// All of them, in the order of Table III.
pub(crate) const ALGORITHMS: [Algorithm; 35] = algorithms! {
    "I-1" I1 "I-2" I2 "I-3" I3 "I-4" I4 "I-5" I5 "I-6" I6 "I-7" I7 "I-8" I8
    "II-1" II1 "II-2" II2 "II-3" II3 "II-4" II4 "II-5" II5 "II-6" II6 "II-7" II7 "II-8" II8
    "III-1" III1 "III-2" III2 "III-3" III3 "III-4" III4 "III-5" III5 "III-6" III6
    "IV-1" IV1 "IV-2" IV2 "IV-3" IV3 "IV-4" IV4 "IV-5" IV5
    "V-1" V1 "V-2" V2 "V-3" V3 "V-4" V4 "V-5" V5 "V-6" V6
    "VI-1" VI1 "VI-2" VI2
};

/// A heap that sometimes collects (coalesces) all free blocks.
pub(super) trait Collecting: Strategy {
    /// Returns the number of collections.
    fn collections(&self) -> u64;
}

/// One of IV-1 to IV-5, with choices for details that the paper leaves open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    /// Builds the algorithm over a memory of this many words.
    pub(super) build: fn(usize) -> Box<dyn Collecting>,
}

macro_rules! listed {
    ($most:literal, $larger:literal: $($algorithm:ident)*) => {
        [$(Listed {
            build: |words| {
                let memory = Reserved::new($algorithm::<$most, $larger, Reserved>::region_for(words));
                Box::new($algorithm::<$most, $larger, _>::new(words * WORD, memory, ()))
            },
        }),*]
    };
}

macro_rules! collecting {
    ($($algorithm:ident)*) => {$(
        impl<const MOST: u32, const LARGER: bool> Collecting
            for $algorithm<MOST, LARGER, Reserved>
        {
            fn collections(&self) -> u64 {
                self.collections()
            }
        }
    )*};
}

collecting! { IV1Listed IV2Listed IV3Listed IV4Listed IV5Listed }

/// IV-1 to IV-5 with lists for sizes up to 128 words, and a block of a larger size if all else
/// fails.
pub(crate) const WITH_LARGER: [Listed; 5] = listed! { 128, true:
    IV1Listed IV2Listed IV3Listed IV4Listed IV5Listed
};

/// IV-1 to IV-5 with lists for sizes up to 50 words, and no block of a larger size.
pub(crate) const WITHOUT_LARGER: [Listed; 5] = listed! { 50, false:
    IV1Listed IV2Listed IV3Listed IV4Listed IV5Listed
};
