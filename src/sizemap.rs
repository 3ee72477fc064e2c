//! SIZEMAP: from requested size to size class (Brent §5), the four ways to choose one.
//!
//! A SIZEMAP is fully described by its classes s₁ < s₂ < … < s_k: a request of s bytes is served by
//! the least class ≥ s. Which classes are best depends on the page size p, because only
//! c = ⌊p/s⌋ blocks fit a page:
//!
//! | map | classes | source |
//! |---|---|---|
//! | [`Linear`](SizeMap::Linear) | every multiple of the unit | Brent §5 |
//! | [`PageFitting`](SizeMap::PageFitting) | the largest size of each page capacity c | Brent §5.1 |
//! | [`Geometric`](SizeMap::Geometric) | s_{j+1} = ⌊ρ s_j⌋ | Brent §6.1 |
//! | [`Classes`](SizeMap::Classes) | given; [`optimise`] finds the best for a known distribution | Brent §5.3 |
//!
//! All sizes are multiples of a *unit* (bytes), which is also the alignment every block has.

/// How requested sizes are rounded up to size classes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SizeMap {
    /// Every multiple of the unit is a class. No internal fragmentation; many classes.
    Linear,
    /// One class for each page capacity (Brent §5.1): k ≈ 2√p classes, and no smaller block would
    /// let more of them fit a page.
    PageFitting,
    /// Each class `ratio` times the one before (Brent §6.1, where ratio e gives the best
    /// worst-case bound).
    Geometric {
        /// ρ > 1.
        ratio: f64,
    },
    /// These classes, ascending; sizes above the last are not served by pages.
    Classes(&'static [u32]),
}

impl SizeMap {
    /// Class that follows `class` (0: none yet) for pages of `page_size` bytes, in bytes; always
    /// a multiple of `unit` above `class`, perhaps beyond the page size.
    fn next(&self, class: usize, index: usize, unit: usize, page_size: usize) -> Option<usize> {
        let least = class + unit;
        match *self {
            Self::Linear => Some(least),
            Self::PageFitting => {
                // All sizes with the same ⌊p/s⌋ as `least` are as good as the largest of them.
                let capacity = page_size / least;
                (capacity > 0).then(|| (page_size / capacity / unit * unit).max(least))
            }
            Self::Geometric { ratio } => {
                let next = (class as f64 * ratio) as usize / unit * unit;
                Some(next.max(least))
            }
            Self::Classes(classes) => {
                let class = *classes.get(index)? as usize;
                Some(class.div_ceil(unit) * unit)
            }
        }
    }

    /// The classes for pages of `page_size` bytes, up to the first ≥ `largest`, each at most
    /// `page_size`. All multiples of `unit`, ascending.
    pub fn classes(
        self,
        unit: usize,
        largest: usize,
        page_size: usize,
    ) -> impl Iterator<Item = usize> {
        let mut class = 0;
        let mut index = 0;
        core::iter::from_fn(move || {
            if class >= largest {
                return None;
            }
            let next = self.next(class, index, unit, page_size)?;
            index += 1;
            (next > class && next <= page_size).then(|| {
                class = next;
                next
            })
        })
    }
}
