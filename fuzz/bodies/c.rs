//! Any sequence of calls of C's `malloc` family follows POSIX, C23 and glibc: alignment, sizes of
//! zero, products that overflow, impossible sizes, `errno`, and state that an error must leave
//! unchanged. Every byte of every block, including those beyond the requested size, keeps its
//! contents; of a block of some megabytes, up to hundreds of them, every page does.
//!
//! The functions come from the source of `libpagewise.so`, without their C names: the fuzzer has
//! another allocator.

use std::ffi::c_void;
use std::ptr;

use arbitrary::{Arbitrary, Unstructured};
use pagewise::global::{Pagewise, Tuning};

#[path = "../../preload/malloc/src/c.rs"]
mod rules;

/// Tuned as in `global`, since all values share one heap when tests run both.
static PAGEWISE: Pagewise = Pagewise::with(Tuning::new().mapping_from(1 << 20));

/// Maximum bytes in use; calls beyond it are skipped.
const MOST: usize = 640 << 20;

/// Maximum bytes of all blocks of an input; calls beyond it are skipped, since pages that are
/// touched for the first time take long.
const MOST_IN_ALL: usize = 2 << 30;

/// The usable bytes from which on a block is written and checked at the start of each page only.
const SAMPLED: usize = 4 << 20;

/// Bytes between these places.
const STEP: usize = 4096;

/// The alignment of every block.
const ALIGN: usize = 16;

/// An error number that no function sets.
const UNTOUCHED: i32 = 4711;

#[derive(Clone, Copy, Debug, Arbitrary)]
enum Size {
    Tiny(u8),
    Small(u16),
    /// Up to 2 MiB; one of sixteen is 33 to 528 MiB, and odd pages.
    Large(u8),
    /// From the largest number down, and around `PTRDIFF_MAX`.
    Impossible(u8),
    AroundHalf(i8),
}

impl Size {
    fn bytes(self) -> usize {
        match self {
            Self::Tiny(size) => size.into(),
            Self::Small(size) => usize::from(size) & 0x3fff,
            Self::Large(size @ ..240) => usize::from(size) << 13,
            Self::Large(size) => (usize::from(size) - 239) * ((33 << 20) + 4096),
            Self::Impossible(below) => usize::MAX - usize::from(below),
            Self::AroundHalf(by) => (usize::MAX >> 1).wrapping_add_signed(by.into()),
        }
    }
}

#[derive(Clone, Copy, Debug, Arbitrary)]
enum Align {
    Log2(u8),
    /// Usually not a power of two.
    Any(u8),
    Huge(u8),
}

impl Align {
    fn bytes(self) -> usize {
        match self {
            Self::Log2(log2) => 1 << (log2 % 22),
            Self::Any(align) => align.into(),
            // Larger than any machine's address space; half of them not powers of two.
            Self::Huge(align) => (1 << (48 + align % 16)) + usize::from(align >> 7),
        }
    }
}

#[derive(Clone, Copy, Debug, Arbitrary)]
enum Call {
    Malloc(Size),
    Calloc(Size, Size),
    Realloc(u8, Size),
    ReallocNull(Size),
    Reallocarray(u8, Size, Size),
    PosixMemalign(Align, Size),
    AlignedAlloc(Align, Size),
    Memalign(Align, Size),
    Valloc(Size),
    Pvalloc(Size),
    Free(u8),
    FreeSized(u8),
    FreeAlignedSized(u8),
    OfNull,
    Trim,
}

/// What the bytes of a block are.
#[derive(Clone, Copy, Debug)]
enum Contents {
    /// All of them are this one.
    All(u8),
    /// Each page starts with this byte and the page's index, or if the byte is 0, with zeros.
    Pages(u8),
}

impl Contents {
    fn zeros(len: usize) -> Self {
        if len < SAMPLED { Self::All(0) } else { Self::Pages(0) }
    }

    /// Returns the first bytes of a page; a shorter page has fewer.
    fn page(mark: u8, index: usize) -> [u8; 8] {
        if mark == 0 { [0; 8] } else { ((index as u64) << 8 | u64::from(mark)).to_ne_bytes() }
    }

    fn write(self, bytes: &mut [u8]) {
        match self {
            Self::All(mark) => bytes.fill(mark),
            Self::Pages(mark) => {
                for (index, page) in bytes.chunks_mut(STEP).enumerate() {
                    let len = page.len().min(8);
                    page[..len].copy_from_slice(&Self::page(mark, index)[..len]);
                }
            }
        }
    }

    fn are(self, bytes: &[u8]) -> bool {
        match self {
            // Compare the bytes with themselves shifted by one: the fuzzer need not instrument a
            // loop over megabytes.
            Self::All(mark) => bytes
                .first()
                .is_none_or(|&first| first == mark && bytes[1..] == bytes[..bytes.len() - 1]),
            Self::Pages(mark) => bytes.chunks(STEP).enumerate().all(|(index, page)| {
                let len = page.len().min(8);
                page[..len] == Self::page(mark, index)[..len]
            }),
        }
    }
}

/// The contents of a block of which nothing is checked.
const NOTHING: Contents = Contents::All(0);

/// A block in use.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: *mut c_void,
    size: usize,
    align: usize,
    usable: usize,
    contents: Contents,
}

impl Block {
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the block is in use and this long, and there is no other reference to its bytes
        // meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.usable) }
    }

    /// Panics if the first `len` bytes have changed.
    fn check(&mut self, len: usize) {
        let contents = self.contents;
        assert!(contents.are(&self.bytes()[..len]), "{self:?}");
    }
}

fn errno() -> i32 {
    // SAFETY: the location is the calling thread's own and always valid.
    unsafe { *libc::__errno_location() }
}

fn os_page() -> usize {
    // SAFETY: a plain query.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a size")
}

#[derive(Default)]
struct Program {
    blocks: Vec<Block>,
    in_use: usize,
    in_all: usize,
    mark: u8,
}

impl Program {
    /// Checks the result of a request for `size` bytes (`None`: a product that overflows), aligned
    /// to `align`, whose first `kept` bytes must be `contents`. Returns whether it succeeded.
    fn answered(
        &mut self,
        start: *mut c_void,
        size: Option<usize>,
        align: usize,
        kept: usize,
        contents: Contents,
    ) -> bool {
        let Some(size) = possible(size, align) else {
            assert!(start.is_null(), "{size:?} bytes aligned to {align} at {start:?}");
            assert_eq!(errno(), libc::ENOMEM, "{size:?} bytes aligned to {align}");
            return false;
        };
        assert!(!start.is_null(), "{size} bytes aligned to {align}: errno {}", errno());
        assert!(
            start.addr().is_multiple_of(align.max(ALIGN)),
            "{start:?} is not aligned to {align}"
        );
        // SAFETY: the block is in use.
        let usable = unsafe { rules::malloc_usable_size(start) };
        assert!(usable >= size, "{usable} bytes of {size}");
        let mut block = Block { start, size, align, usable, contents };
        block.check(kept);
        self.mark = self.mark.wrapping_add(1).max(1);
        let is_sampled = usable >= SAMPLED;
        let contents = if is_sampled { Contents::Pages } else { Contents::All }(self.mark);
        block.contents = contents;
        contents.write(block.bytes());
        self.in_use += usable;
        self.in_all += usable;
        self.blocks.push(block);
        true
    }

    /// Returns whether a call is allowed: it fails, or the block fits into the limit.
    fn room(&self, size: Option<usize>, align: usize) -> bool {
        possible(size, align).is_none_or(|size| {
            self.in_use + size + align <= MOST && self.in_all + size <= MOST_IN_ALL
        })
    }

    fn take(&mut self, which: u8) -> Option<Block> {
        let index = usize::from(which).checked_rem(self.blocks.len())?;
        let mut block = self.blocks.swap_remove(index);
        block.check(block.usable);
        self.in_use -= block.usable;
        Some(block)
    }

    /// Resizes a block with `realloc` or `reallocarray`.
    fn resize(
        &mut self,
        which: u8,
        size: Option<usize>,
        call: impl FnOnce(*mut c_void) -> *mut c_void,
    ) {
        if !self.room(size, ALIGN) {
            return;
        }
        let Some(mut block) = self.take(which) else { return };
        let start = call(block.start);
        if size == Some(0) {
            assert!(start.is_null() && errno() == UNTOUCHED, "{start:?}, errno {}", errno());
            return;
        }
        let kept = block.usable.min(size.unwrap_or(0));
        if !self.answered(start, size, 1, kept, block.contents) {
            // It must be unchanged.
            block.check(block.usable);
            self.in_use += block.usable;
            self.blocks.push(block);
        }
    }

    fn perform(&mut self, call: Call) {
        // SAFETY: the location is the calling thread's own and always valid.
        unsafe { *libc::__errno_location() = UNTOUCHED };
        match call {
            Call::Malloc(size) => {
                let size = size.bytes();
                self.allocate(Some(size), 1, || rules::malloc(size));
            }
            Call::ReallocNull(size) => {
                let size = size.bytes();
                // SAFETY: null is allowed.
                self.allocate(Some(size), 1, || unsafe { rules::realloc(ptr::null_mut(), size) });
            }
            Call::Calloc(count, size) => self.calloc(count.bytes(), size.bytes()),
            Call::Realloc(which, size) => {
                let size = size.bytes();
                // SAFETY: the block is in use, and not used afterwards if it moves.
                self.resize(which, Some(size), |block| unsafe { rules::realloc(block, size) });
            }
            Call::Reallocarray(which, count, size) => {
                let (count, size) = (count.bytes(), size.bytes());
                self.resize(which, count.checked_mul(size), |block| {
                    // SAFETY: as above.
                    unsafe { rules::reallocarray(block, count, size) }
                });
            }
            Call::PosixMemalign(align, size) => self.posix_memalign(align.bytes(), size.bytes()),
            Call::AlignedAlloc(align, size) => self.aligned_alloc(align.bytes(), size.bytes()),
            Call::Memalign(align, size) => self.memalign(align.bytes(), size.bytes()),
            Call::Valloc(size) => {
                let size = size.bytes();
                self.allocate(Some(size), os_page(), || rules::valloc(size));
            }
            Call::Pvalloc(size) => {
                let size = size.bytes();
                let rounded = size.checked_next_multiple_of(os_page());
                self.allocate(rounded, os_page(), || rules::pvalloc(size));
            }
            // SAFETY: the block is in use with this size and alignment, and not used afterwards.
            Call::Free(which) => self.free(which, |block| unsafe { rules::free(block.start) }),
            Call::FreeSized(which) => self.free(which, |block| {
                // SAFETY: the block is in use as recorded, and not used afterwards.
                unsafe { rules::free_sized(block.start, block.size) };
            }),
            Call::FreeAlignedSized(which) => self.free(which, |block| {
                // SAFETY: the block is in use as recorded, and not used afterwards.
                unsafe { rules::free_aligned_sized(block.start, block.align, block.size) };
            }),
            // SAFETY: null is allowed.
            Call::OfNull => unsafe {
                rules::free(ptr::null_mut());
                assert_eq!(rules::malloc_usable_size(ptr::null_mut()), 0);
                assert_eq!(errno(), UNTOUCHED);
            },
            Call::Trim => drop(PAGEWISE.purge()),
        }
    }

    /// Makes a call that requests `size` bytes (`None`: a product that overflows) at a multiple of
    /// `align`, if it is [allowed](Self::room).
    fn allocate(&mut self, size: Option<usize>, align: usize, call: impl FnOnce() -> *mut c_void) {
        if self.room(size, align) {
            self.answered(call(), size, align, 0, NOTHING);
        }
    }

    fn calloc(&mut self, count: usize, size: usize) {
        let product = count.checked_mul(size);
        if self.room(product, 1) {
            let len = product.unwrap_or(0);
            self.answered(rules::calloc(count, size), product, 1, len, Contents::zeros(len));
        }
    }

    fn aligned_alloc(&mut self, align: usize, size: usize) {
        if !align.is_power_of_two() {
            assert!(rules::aligned_alloc(align, size).is_null() && errno() == libc::EINVAL);
        } else {
            self.allocate(Some(size), align, || rules::aligned_alloc(align, size));
        }
    }

    fn memalign(&mut self, align: usize, size: usize) {
        match align.checked_next_power_of_two() {
            None => assert!(rules::memalign(align, size).is_null() && errno() == libc::EINVAL),
            Some(rounded) => self.allocate(Some(size), rounded, || rules::memalign(align, size)),
        }
    }

    /// Frees a block with `call`, if there is one.
    fn free(&mut self, which: u8, call: impl FnOnce(Block)) {
        let Some(block) = self.take(which) else { return };
        call(block);
        assert_eq!(errno(), UNTOUCHED, "free keeps errno");
    }

    fn posix_memalign(&mut self, align: usize, size: usize) {
        if !self.room(Some(size), align.checked_next_power_of_two().unwrap_or(1)) {
            return;
        }
        let untouched = ptr::without_provenance_mut(UNTOUCHED as usize);
        let mut out = untouched;
        // SAFETY: `out` is valid for writes.
        let error = unsafe { rules::posix_memalign(&raw mut out, align, size) };
        assert_eq!(errno(), UNTOUCHED, "posix_memalign keeps errno");
        if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
            assert_eq!((error, out), (libc::EINVAL, untouched), "aligned to {align}");
        } else if possible(Some(size), align).is_none() {
            assert_eq!((error, out), (libc::ENOMEM, untouched), "{size} aligned to {align}");
        } else {
            assert_eq!(error, 0, "{size} bytes aligned to {align}");
            self.answered(out, Some(size), align, 0, NOTHING);
        }
    }
}

/// Returns the size, if a block of this size and alignment is possible on any machine.
fn possible(size: Option<usize>, align: usize) -> Option<usize> {
    size.filter(|&size| size <= MOST && align <= MOST)
}

pub(crate) fn run(data: &[u8]) {
    let Ok(calls) = Vec::<Call>::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let mut program = Program::default();
    // Whether sizes between small and impossible succeed depends on the machine.
    calls.into_iter().filter(|call| !is_between(*call)).for_each(|call| program.perform(call));
    while let Some(block) = program.take(0) {
        // SAFETY: the block is in use, and not used afterwards.
        unsafe { rules::free(block.start) };
    }
    let stats = PAGEWISE.stats();
    assert_eq!((stats.blocks, stats.live, stats.mappings), (0, 0, 0), "{stats}");
}

/// Returns whether a call requests a product that only some machines can serve.
fn is_between(call: Call) -> bool {
    match call {
        Call::Calloc(count, size) | Call::Reallocarray(_, count, size) => {
            let product = count.bytes().checked_mul(size.bytes());
            product.is_some_and(|size| (MOST..1 << 47).contains(&size))
        }
        _ => false,
    }
}
