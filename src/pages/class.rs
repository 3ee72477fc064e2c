//! The size classes of a heap: SIZEMAP as an array (Brent §5), and the facts of each class.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::config::Config;
use crate::error::AllocError;
use crate::source::Source;

/// A size class.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Block size, bytes.
    pub(crate) size: u32,
    /// c: blocks in a page.
    pub(crate) capacity: u32,
    /// φ0: blocks that must be free in a page before it can become the current page.
    pub(crate) tolerance: u32,
    /// ⌊2⁴² / size⌋ + 1, to divide by the size without a division; see [`Class::index`].
    pub(crate) reciprocal: u64,
}

/// log₂ of what the [reciprocal](Class::reciprocal) is a fraction of.
const RECIPROCAL_SHIFT: u32 = 42;

impl Class {
    /// Computes the facts of the class with blocks of `size` bytes.
    fn new(size: usize, config: &Config) -> Self {
        let capacity = config.capacity(size) as u32;
        let tolerance = config.freetol.div_ceil(size) as u32;
        Self {
            size: size as u32,
            capacity,
            tolerance: tolerance.clamp(1, capacity),
            reciprocal: (1 << RECIPROCAL_SHIFT) / size as u64 + 1,
        }
    }

    /// Returns the number of the block at this offset (bytes) in a page.
    ///
    /// The reciprocal is too large by at most 1, so the product by at most the offset, < 2²⁰; that
    /// is less than 2⁴²/size, the least distance to the next quotient, as size ≤ 2²⁰.
    #[inline(always)]
    pub(crate) fn index(&self, offset: usize) -> u32 {
        Self::index_by(self.reciprocal, offset)
    }

    /// Like [`index`](Self::index), for a reciprocal that the caller has.
    #[inline(always)]
    pub(crate) fn index_by(reciprocal: u64, offset: usize) -> u32 {
        Self::index_of(Self::divide(reciprocal, offset))
    }

    /// Divides the offset by the size: the integer part is the quotient, and the fraction is behind
    /// the point.
    #[inline(always)]
    pub(crate) fn divide(reciprocal: u64, offset: usize) -> u64 {
        offset as u64 * reciprocal
    }

    /// Returns the quotient.
    #[inline(always)]
    pub(crate) fn index_of(divided: u64) -> u32 {
        (divided >> RECIPROCAL_SHIFT) as u32
    }

    /// Returns whether offsets, [divided](Self::divide) and combined by `|`, are all multiples of
    /// the size.
    ///
    /// The fraction of a multiple comes only from the reciprocal's excess and is less than 2²⁰
    /// (above); that of any other offset is at least the reciprocal, more than 2⁴²/size ≥ 2²².
    #[inline(always)]
    pub(crate) fn are_multiples(divided: u64) -> bool {
        divided & ((1 << RECIPROCAL_SHIFT) - (1 << 20)) == 0
    }
}

/// The classes, in dedicated memory. Invariant: once opened, `map` has an entry for every multiple
/// of the unit up to FFCROSSOVER that a class can serve, the least such class.
#[derive(Clone, Copy, Debug)]
pub struct Classes {
    /// The classes, smallest first: an array of `count`.
    classes: NonNull<Class>,
    /// Number of classes; 0 before `open`.
    count: usize,
    /// SIZEMAP: entry u is the class that serves sizes of u units.
    map: NonNull<u16>,
    /// Largest size served by pages, bytes.
    largest: usize,
    /// log₂ of the unit.
    unit_shift: u32,
}

// SAFETY: the arrays are never written after `open`, and belong to the heap's source.
unsafe impl Send for Classes {}

impl Classes {
    /// Makes an empty set of classes: no size is served before [`open`](Self::open).
    pub(crate) const fn new() -> Self {
        Self {
            classes: NonNull::dangling(),
            count: 0,
            map: NonNull::dangling(),
            largest: 0,
            unit_shift: 0,
        }
    }

    /// Builds the classes of a configuration that [checks](Config::check), once; no block will be
    /// smaller than `least` bytes.
    pub(crate) fn open<S: Source>(
        &mut self,
        config: &Config,
        least: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        let sizes = || {
            let classes = config.sizemap.classes(config.unit, config.ffcrossover, config.page_size);
            classes.skip_while(move |&size| size < least).take(1 + u16::MAX as usize)
        };
        let count = sizes().count();
        if self.count > 0 || count == 0 {
            return Ok(());
        }
        let largest = sizes().last().unwrap_or(0).min(config.ffcrossover);
        let units = largest.div_ceil(config.unit);
        let (layout, map_offset) = Layout::array::<Class>(count)
            .and_then(|classes| classes.extend(Layout::array::<u16>(units + 1)?))
            .map_err(|_| AllocError::Exhausted)?;
        let memory = source.dedicate(layout)?;
        self.classes = memory.cast();
        // SAFETY: the layout has the map behind the classes.
        self.map = unsafe { memory.add(map_offset) }.cast();
        self.count = count;
        self.largest = largest;
        self.unit_shift = config.unit.trailing_zeros();
        let mut next_unit = 0;
        for (class, size) in sizes().enumerate() {
            // SAFETY: there is room for `count` classes and `units + 1` map entries.
            unsafe {
                self.classes.add(class).write(Class::new(size, config));
                while next_unit <= units && next_unit * config.unit <= size {
                    self.map.add(next_unit).write(class as u16);
                    next_unit += 1;
                }
            }
        }
        Ok(())
    }

    /// Returns the number of classes; 0 before `open`.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the unit of the configuration, bytes.
    #[inline(always)]
    pub(crate) fn unit(&self) -> usize {
        1 << self.unit_shift
    }

    /// Returns the smallest class.
    pub(crate) fn first(&self) -> Option<&Class> {
        (self.count > 0).then(|| self.get(0))
    }

    /// Returns the largest class.
    pub(crate) fn last(&self) -> Option<&Class> {
        self.count.checked_sub(1).map(|last| self.get(last as u32))
    }

    /// Returns the facts of a class.
    #[inline(always)]
    pub(crate) fn get(&self, class: u32) -> &Class {
        assert!((class as usize) < self.count, "a page belongs to a class");
        // SAFETY: `open` wrote `count` classes.
        unsafe { self.classes.add(class as usize).as_ref() }
    }

    /// SIZEMAP: returns the smallest class whose blocks hold the layout, if pages serve it. O(1)
    /// for alignments up to the unit, else O(classes): page bases are aligned to p, so blocks are
    /// aligned to `align` iff their size is a multiple of it.
    #[inline(always)]
    pub(crate) fn of(&self, layout: Layout) -> Option<u32> {
        let class = self.of_size(layout.size())?;
        let unit = 1 << self.unit_shift;
        if layout.align() <= unit { Some(class) } else { self.over_aligned(class, layout.align()) }
    }

    /// Returns the smallest class whose blocks hold this many bytes, if pages serve them; `None`
    /// for 0 bytes, and before `open`. O(1).
    #[inline(always)]
    pub(crate) fn of_size(&self, size: usize) -> Option<u32> {
        if size.wrapping_sub(1) >= self.largest {
            return None;
        }
        let units = (size + ((1 << self.unit_shift) - 1)) >> self.unit_shift;
        // SAFETY: there are classes, so `open` wrote an entry for every multiple of the unit up to
        // `largest` rounded up.
        Some(u32::from(unsafe { *self.map.add(units).as_ref() }))
    }

    /// Returns the least class from `class` on whose blocks are all aligned to `align`, if pages
    /// serve it. O(classes).
    fn over_aligned(&self, class: u32, align: usize) -> Option<u32> {
        // SAFETY: `open` wrote `count` classes, which never change afterwards.
        let classes = unsafe { core::slice::from_raw_parts(self.classes.as_ptr(), self.count) };
        let rest = classes.get(class as usize..)?;
        let further = rest.iter().position(|class| class.size as usize & (align - 1) == 0)?;
        (rest[further].size as usize <= self.largest).then_some(class + further as u32)
    }
}

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::sizemap::SizeMap;
    use crate::source::Reserved;

    #[test]
    fn every_size_gets_the_least_class_that_holds_it() {
        for sizemap in [SizeMap::Linear, SizeMap::PageFitting, SizeMap::Geometric { ratio: 1.25 }] {
            let pages = [(512, 1), (512, 8), (1 << 16, 16), (1 << 20, 16)];
            // Each class takes long under Miri.
            for (page_size, unit) in pages.into_iter().take(if cfg!(miri) { 2 } else { 4 }) {
                let config = Config { unit, sizemap, ..Config::with_page_size(page_size) };
                let mut classes = Classes::new();
                let mut source = Reserved::new(1 << 24);
                let nothing = Layout::from_size_align(0, 1).unwrap();
                assert_eq!(classes.of(nothing), None);
                classes.open(&config, 4, &mut source).unwrap();
                assert_eq!(classes.of(nothing), None);
                for size in 1..=config.ffcrossover {
                    let layout = Layout::from_size_align(size, 1).unwrap();
                    let Some(class) = classes.of(layout) else {
                        assert!(size > classes.largest);
                        continue;
                    };
                    assert!(classes.get(class).size as usize >= size);
                    assert!(class == 0 || (classes.get(class - 1).size as usize) < size);
                }
            }
        }
    }

    /// The alignments that a class serves, as a plain search of the sizes finds them: up to the
    /// unit any block does, above the unit sizes that are multiples.
    #[test]
    fn every_layout_gets_the_least_class_that_is_aligned() {
        for (page_size, unit) in [(512, 1), (4096, 8), (1 << 14, 16)] {
            for sizemap in [SizeMap::Linear, SizeMap::PageFitting, SizeMap::Classes(&[16, 24, 64])]
            {
                let config = Config { unit, sizemap, ..Config::with_page_size(page_size) };
                let mut classes = Classes::new();
                let mut source = Reserved::new(1 << 24);
                assert_eq!((classes.count(), classes.first().is_none()), (0, true));
                classes.open(&config, 1, &mut source).unwrap();
                assert_eq!((classes.unit(), classes.last().is_some()), (unit, true));
                let sizes: Vec<u32> =
                    (0..classes.count() as u32).map(|class| classes.get(class).size).collect();
                assert!(sizes.is_sorted_by(|a, b| a < b));
                assert_eq!(classes.first().map(|class| class.size), sizes.first().copied());
                assert_eq!(classes.last().map(|class| class.size), sizes.last().copied());
                for shift in 0..=page_size.ilog2() {
                    let align = 1 << shift;
                    for size in (1..=config.ffcrossover).step_by(if cfg!(miri) { 97 } else { 1 }) {
                        let fits = |&of: &u32| {
                            let of = of as usize;
                            of >= size && (align <= unit || of.is_multiple_of(align))
                        };
                        let suited = sizes.iter().position(fits).map(|class| class as u32);
                        let served = suited.filter(|&class| {
                            size <= classes.largest
                                && (align <= unit
                                    || sizes[class as usize] as usize <= classes.largest)
                        });
                        let layout = Layout::from_size_align(size, align).unwrap();
                        assert_eq!(classes.of(layout), served, "{layout:?} of {config:?}");
                    }
                }
                // Once is enough.
                let before = source.dedicated();
                classes.open(&config, 1, &mut source).unwrap();
                assert_eq!(source.dedicated(), before);
            }
        }
    }

    #[test]
    fn offsets_are_divided_exactly() {
        for size in (1..if cfg!(miri) { 50 } else { 5000 }).chain([1 << 16, (1 << 19) + 1, 1 << 20])
        {
            let class = Class::new(size, &Config::with_page_size(1 << 20));
            let offsets = [0, 1, size - 1, size, 7 * size - 1, 7 * size, (1 << 20) - 1];
            for offset in offsets.into_iter().filter(|&offset| offset < 1 << 20) {
                assert_eq!(class.index(offset) as usize, offset / size, "{offset} / {size}");
            }
        }
    }
}
