//! Nielsen's 35 algorithms (1977, Table III).

use super::Entry;
use crate::nielsen::*;

/// A row for one of them. They search lists as published.
macro_rules! nielsen {
    ($name:literal, $algorithm:ident, $about:literal) => {
        growing!($name, "Nielsen Table III", $algorithm, $about).linear()
    };
}

pub(super) const ENTRIES: &[Entry] = &[
    nielsen!("I-1", I1, "memory order: First Fit; S + BP; Deallocation"),
    nielsen!("I-2", I2, "memory order: First Fit + R; S + BP; Deallocation"),
    nielsen!("I-3", I3, "memory order: Exact/Best + R; S + BP; Deallocation"),
    nielsen!("I-4", I4, "memory order: First Fit; S; Allocation"),
    nielsen!("I-5", I5, "memory order: First Fit + R; S; Allocation"),
    nielsen!("I-6", I6, "memory order: First Fit + R; S; Deallocation"),
    nielsen!("I-7", I7, "memory order: First Fit + R; S; Garbage Collection"),
    nielsen!("I-8", I8, "memory order: Exact/Best + R; S; Garbage Collection"),
    nielsen!("II-1", II1, "memory ordered free list: First Fit; S + DP; Deallocation"),
    nielsen!("II-2", II2, "memory ordered free list: First Fit + R; S + DP; Deallocation"),
    nielsen!("II-3", II3, "memory ordered free list: Exact/Best; S + DP; Garbage Collection"),
    nielsen!("II-4", II4, "memory ordered free list: Exact/Best + R; S + DP; Garbage Collection"),
    nielsen!("II-5", II5, "memory ordered free list: First Fit; S + FP; Limbo"),
    nielsen!("II-6", II6, "memory ordered free list: First Fit + R; S + FP; Limbo"),
    nielsen!("II-7", II7, "memory ordered free list: Exact/Best; S + FP; 2 Stage"),
    nielsen!("II-8", II8, "memory ordered free list: Exact/Best + R; S + FP; 2 Stage"),
    nielsen!("III-1", III1, "LIFO + First Fit; S + DP; Allocation"),
    nielsen!("III-2", III2, "FIFO + First Fit; S + DP; Allocation"),
    nielsen!("III-3", III3, "LIFO + First Fit; S + FP; Garbage Collection"),
    nielsen!("III-4", III4, "LIFO + Exact/Best; S + FP; Garbage Collection"),
    nielsen!("III-5", III5, "FIFO + First Fit; S + FP; Garbage Collection"),
    nielsen!("III-6", III6, "FIFO + Exact/Best; S + FP; Garbage Collection"),
    nielsen!("IV-1", IV1, "multiple free lists: Actual; S + FP; Garbage Collection"),
    nielsen!("IV-2", IV2, "multiple free lists: Round Up; S + FP; Garbage Collection"),
    nielsen!("IV-3", IV3, "multiple free lists: Actual; S + FP + B; Compaction, GC"),
    nielsen!("IV-4", IV4, "multiple free lists: Actual; S + DP + B; Compaction, Memory Order"),
    nielsen!("IV-5", IV5, "multiple free lists: Actual; S + DP + B; Compaction, LIFO"),
    nielsen!("V-1", V1, "buddy blocks: LIFO; S + FP; Deallocation"),
    nielsen!("V-2", V2, "buddy blocks: FIFO; S + FP; Deallocation"),
    nielsen!("V-3", V3, "buddy blocks: LIFO; S + DP; Deallocation"),
    nielsen!("V-4", V4, "buddy blocks: FIFO; S + DP; Deallocation"),
    nielsen!("V-5", V5, "buddy blocks: LIFO; S + DP; Garbage Collection"),
    nielsen!("V-6", V6, "buddy blocks: LIFO; S + FP; Garbage Collection"),
    nielsen!("VI-1", VI1, "size ordered free list: S + FP; Garbage Collection"),
    nielsen!("VI-2", VI2, "size ordered free list: S + DP + B; Deallocation"),
];
