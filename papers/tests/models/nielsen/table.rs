//! Nielsen's Table III, line by line.

use pagewise::Strategy;
use pagewise::catalogue::nielsen::*;
use pagewise::source::Reserved;

use super::{Algorithm, Joins, Kind, LISTED, MEMORY, Order, WORD};

/// Table III. Fields: S, and BP or B, are a word each before the contents; FP and DP are inside
/// free blocks.
#[allow(clippy::too_many_lines, reason = "a table")]
pub(super) fn table_iii() -> Vec<Algorithm> {
    const S: (usize, usize) = (1, 0);
    const S_BP: (usize, usize) = (2, 0);
    const S_FP: (usize, usize) = (1, 1);
    const S_DP: (usize, usize) = (1, 2);
    const S_FP_B: (usize, usize) = (2, 1);
    const S_DP_B: (usize, usize) = (2, 2);
    let (first, best) = ([false, false], [true, false]);
    let (first_r, best_r) = ([false, true], [true, true]);
    let (memory, lifo, fifo) = (Order::Memory, Order::Lifo, Order::Fifo);
    use Joins::*;
    use Kind::{All, Buddies, List, Sizes};
    macro_rules! lines {
        ($($engine:ident $kind:expr, $search:expr, $fields:expr, $joins:expr, $multiple:expr;)*) => {
            vec![$(Algorithm {
                name: stringify!($engine),
                kind: $kind,
                best: $search[0],
                rotates: $search[1],
                fields: $fields,
                joins: $joins,
                multiple: $multiple,
                lists: (LISTED, true),
                engine: || {
                    let memory = Reserved::new($engine::<Reserved>::region_for(MEMORY));
                    Box::new($engine::new(MEMORY * WORD, memory, ()))
                },
            }),*]
        };
    }
    lines! {
        I1 All, first, S_BP, Deallocation, 1;
        I2 All, first_r, S_BP, Deallocation, 1;
        I3 All, best_r, S_BP, Deallocation, 1;
        I4 All, first, S, Allocation, 1;
        I5 All, first_r, S, Allocation, 1;
        I6 All, first_r, S, Deallocation, 1;
        I7 All, first_r, S, Collection, 1;
        I8 All, best_r, S, Collection, 1;
        II1 List(memory), first, S_DP, Deallocation, 1;
        II2 List(memory), first_r, S_DP, Deallocation, 1;
        II3 List(memory), best, S_DP, Collection, 1;
        II4 List(memory), best_r, S_DP, Collection, 1;
        II5 List(memory), first, S_FP, Limbo, 1;
        II6 List(memory), first_r, S_FP, Limbo, 1;
        II7 List(memory), best, S_FP, TwoStage, 1;
        II8 List(memory), best_r, S_FP, TwoStage, 1;
        III1 List(lifo), first, S_DP, Allocation, 1;
        III2 List(fifo), first, S_DP, Allocation, 1;
        III3 List(lifo), first, S_FP, Collection, 1;
        III4 List(lifo), best, S_FP, Collection, 1;
        III5 List(fifo), first, S_FP, Collection, 1;
        III6 List(fifo), best, S_FP, Collection, 1;
        IV1 Sizes(lifo), first, S_FP, Collection, 1;
        IV2 Sizes(lifo), first, S_FP, Collection, 5;
        IV3 Sizes(lifo), first, S_FP_B, Both, 1;
        IV4 Sizes(memory), first, S_DP_B, Deallocation, 1;
        IV5 Sizes(lifo), first, S_DP_B, Deallocation, 1;
        V1 Buddies(lifo), first, S_FP, Deallocation, 1;
        V2 Buddies(fifo), first, S_FP, Deallocation, 1;
        V3 Buddies(lifo), first, S_DP, Deallocation, 1;
        V4 Buddies(fifo), first, S_DP, Deallocation, 1;
        V5 Buddies(lifo), first, S_DP, Collection, 1;
        V6 Buddies(lifo), first, S_FP, Collection, 1;
        VI1 List(Order::Size), first, S_FP, Collection, 1;
        VI2 List(Order::Size), first, S_DP_B, Deallocation, 1;
    }
}

/// IV-1 to IV-5 with lists for fewer sizes, and without using larger blocks instead.
pub(super) fn with_fewer_lists() -> Vec<Algorithm> {
    const MOST: u32 = 12;
    let category_iv = table_iii().into_iter().filter(|one| one.name.starts_with("IV"));
    macro_rules! engine {
        ($engine:ident) => {
            || {
                let memory = $engine::<MOST, false, Reserved>::region_for(MEMORY);
                Box::new($engine::<MOST, false, _>::new(MEMORY * WORD, Reserved::new(memory), ()))
            }
        };
    }
    let engines: [fn() -> Box<dyn Strategy>; 5] = [
        engine!(IV1Listed),
        engine!(IV2Listed),
        engine!(IV3Listed),
        engine!(IV4Listed),
        engine!(IV5Listed),
    ];
    let lists = (MOST as usize, false);
    category_iv.zip(engines).map(|(one, engine)| Algorithm { lists, engine, ..one }).collect()
}
