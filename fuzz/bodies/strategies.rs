//! Any sequence of requests keeps every strategy of the catalogue intact: blocks are aligned, long
//! enough and disjoint, contents survive, wrong frees are refused, exhaustion loses nothing, and
//! the audit finds no fault. The oracle is that of the property tests.
//!
//! The first four bytes choose the strategy, its parameters, and its memory: a reservation, or a
//! region that refuses some of the calls for more. Then every five bytes are a request.

use std::cell::Cell;

use pagewise::catalogue;
use pagewise::pages::Config;

use crate::harness::source::{Memory, Refusing};
use crate::harness::{self, Bookkeeping, Request};

/// Address space, small enough to be exhausted sometimes.
const CAPACITY: usize = 16 << 20;

/// Maximum number of requests: a fuzzer learns more from many short sequences.
const MOST_REQUESTS: usize = 2_000;

/// Bytes of the refusing region.
const REGION: usize = 512 << 10;

pub(crate) fn run(data: &[u8]) {
    let [which, parameters, first, count, requests @ ..] = data else { return };
    let entries = catalogue::all().count();
    let Some(entry) = catalogue::all().nth(usize::from(*which) % entries) else { return };
    let bookkeeping = if entry.in_band { Bookkeeping::InBand } else { Bookkeeping::Apart };
    let (requests, _) = requests.as_chunks();
    let requests: Vec<_> = requests.iter().take(MOST_REQUESTS).map(request).collect();
    let config = config(*parameters);
    if parameters & 16 == 0 {
        let Ok(mut strategy) = entry.build(config, CAPACITY) else { return };
        harness::drive(&mut *strategy, bookkeeping, &requests);
        return;
    }
    let mut memory = Memory::new(REGION);
    let calls = Cell::new(0);
    let refused = usize::from(*first)..usize::from(*first) + usize::from(*count);
    // SAFETY: the strategy borrows the region, and is dropped before the memory.
    let source = Refusing::new(unsafe { memory.region() }, &calls, refused);
    let Ok(mut strategy) = entry.build_over(config, source, &()) else { return };
    harness::drive(&mut *strategy, bookkeeping, &requests);
}

/// Returns a configuration with pages of 512 bytes to 64 KiB, with or without a tolerance.
fn config(byte: u8) -> Config {
    let page_size = 512 << (byte & 7);
    let freetol = if byte & 8 == 0 { 1 } else { page_size / 5 };
    Config::with_page_size(page_size).freetol(freetol)
}

/// Decodes a request: the operation, the block, the size, and the alignment.
fn request(&[what, which, mantissa, exponent, align]: &[u8; 5]) -> Request {
    let which = usize::from(which);
    let size = usize::from(mantissa) << (exponent % 14);
    match what % 16 {
        0..=7 => Request::Allocate { size, align: 1 << (align % 18) },
        8 => Request::Resize { which, size },
        9 => {
            let offset = isize::from(align as i8) * 16;
            Request::WrongFree { which, offset, size, align: 8 }
        }
        10 => {
            let (offset, align) = (size as isize - 4096, 1 << (align % 18));
            Request::WrongFree { which, offset, size: which + 1, align }
        }
        11 => Request::CheckedFree { which },
        12 => Request::Misaligned { which, shift: 1 + u32::from(align % 5) },
        13 => Request::Keep { which, size, align: 1 << (align % 18) },
        // Anywhere in the address space.
        14 if exponent & 1 == 1 => {
            let offset = (isize::from(mantissa as i8) << 56).wrapping_add(isize::from(align as i8));
            Request::WrongFree { which, offset, size: 1, align: 1 }
        }
        _ => Request::Free { which },
    }
}
