//! SIZEMAP: the mapping from requested sizes to size classes (Brent §5), and four ways to choose
//! the classes.
//!
//! A SIZEMAP is determined by its classes s₁ < s₂ < … < s_k: the smallest class ≥ s serves a
//! request of s bytes. The best classes depend on the page size p, because only c = ⌊p/s⌋ blocks
//! fit into a page:
//!
//! | map | classes | source |
//! |---|---|---|
//! | [`Linear`](SizeMap::Linear) | every multiple of the unit | Brent §5 |
//! | [`PageFitting`](SizeMap::PageFitting) | the largest size of each page capacity c | Brent §5.1 |
//! | [`Geometric`](SizeMap::Geometric) | s_{j+1} = ⌊ρ s_j⌋ | Brent §6.1 |
//! | [`Classes`](SizeMap::Classes) | given; [`optimise`] finds the best for a known distribution | Brent §5.3 |
//!
//! All sizes are multiples of a *unit* (bytes), which is also the alignment of every block.

/// How requested sizes are rounded up to size classes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SizeMap {
    /// Every multiple of the unit is a class: no internal fragmentation, but many classes.
    Linear,
    /// One class for each page capacity c: the largest size that fits c times into a page (Brent
    /// §5.1); k ≈ 2√p classes.
    PageFitting,
    /// Each class is `ratio` times the one before (Brent §6.1, where the ratio e gives the best
    /// worst-case bound).
    Geometric {
        /// ρ > 1.
        ratio: f64,
    },
    /// These classes, in ascending order. Pages do not serve sizes above the last one.
    Classes(&'static [u32]),
}

impl SizeMap {
    /// Returns the class in bytes that follows `class` (0: none yet) for pages of `page_size`
    /// bytes: a multiple of `unit`, which may exceed the page size.
    fn next(&self, class: usize, index: usize, unit: usize, page_size: usize) -> Option<usize> {
        let least = class.checked_add(unit)?;
        match *self {
            Self::Linear => Some(least),
            Self::PageFitting => {
                // The largest size with the same ⌊p/s⌋ as `least`.
                let capacity = page_size / least;
                (capacity > 0).then(|| (page_size / capacity / unit * unit).max(least))
            }
            Self::Geometric { ratio } => {
                let next = (class as f64 * ratio) as usize / unit * unit;
                Some(next.max(least))
            }
            Self::Classes(classes) => {
                let class = *classes.get(index)? as usize;
                class.checked_next_multiple_of(unit)
            }
        }
    }

    /// Returns the classes for pages of `page_size` bytes: multiples of `unit` in ascending order,
    /// up to the first one ≥ `largest`, none above `page_size`. There are none if `unit` is 0.
    pub fn classes(
        self,
        unit: usize,
        largest: usize,
        page_size: usize,
    ) -> impl Iterator<Item = usize> {
        let mut class = 0;
        let mut index = 0;
        core::iter::from_fn(move || {
            if class >= largest || unit == 0 {
                return None;
            }
            let next = loop {
                let mut next = self.next(class, index, unit, page_size)?;
                if let Self::Geometric { .. } = self {
                    // s_{j+1} = min(n, ⌊ρ s_j⌋) (Brent §6.1), where n is the largest size, rounded
                    // up to units.
                    next = next.min(largest.checked_next_multiple_of(unit)?);
                }
                index += 1;
                // Given classes may be the same once they are rounded up to units.
                if next > class {
                    break next;
                }
            };
            (next <= page_size).then(|| {
                class = next;
                next
            })
        })
    }
}

/// A program's demand for one size. [`optimise`] fits a SIZEMAP to such demands.
#[cfg(all(feature = "std", feature = "strategies"))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Requested size in bytes.
    pub size: usize,
    /// Number of blocks of that size in use: the average (by Little's law, allocation rate × mean
    /// lifetime) or the peak.
    pub live: f64,
}

/// Returns the classes that hold the least memory for a known demand (Brent §5.3), by dynamic
/// programming in time O(d²), where d is the number of distinct sizes up to `largest`.
///
/// A class of block size b that serves N blocks in use is expected to take p·N/⌊p/b⌋ bytes of
/// pages, which includes internal fragmentation and the rest of each page (a, b), and half a page
/// more, since its last page is half used on average (c). Page headers (d) cost the same for every
/// page. The paper omits the details; these are ours.
///
/// The classes are multiples of `unit` in ascending order. The last one serves `largest`
/// (FFCROSSOVER), and each is as large as its number of blocks in a page allows. Sizes of 0, above
/// `largest` or above 4 GiB do not count. There are no classes if `unit` is 0.
#[cfg(all(feature = "std", feature = "strategies"))]
#[must_use]
pub fn optimise(demand: &[Demand], unit: usize, largest: usize, page_size: usize) -> Vec<u32> {
    // The candidates for classes: every size in demand, rounded up, and the largest size.
    let mut live_at = std::collections::BTreeMap::<usize, f64>::new();
    let demand = demand.iter().filter(|d| d.size > 0 && d.size <= largest);
    for &Demand { size, live } in demand.chain(&[Demand { size: largest.max(1), live: 0.0 }]) {
        if let Some(size) = size.checked_next_multiple_of(unit) {
            *live_at.entry(size).or_default() += live;
        }
    }
    live_at.retain(|&size, _| size <= page_size.min(u32::MAX as usize));
    // Vectors are collected, not pushed to or unzipped: else programs would call the instance of
    // `Vec`'s growth that this crate has for such items, through a pointer, not one of their own.
    let sizes: Vec<usize> = live_at.keys().copied().collect();
    let live: Vec<f64> = live_at.into_values().collect();
    let page = page_size as f64;

    // best[j]: the least memory for the sizes below candidate j if candidate j − 1 is a class.
    // from[j]: the candidate after the class that precedes j − 1.
    let mut best = vec![f64::INFINITY; sizes.len() + 1];
    let mut from = vec![0; sizes.len() + 1];
    best[0] = 0.0;
    for j in 1..=sizes.len() {
        let capacity = (page_size / sizes[j - 1]) as f64;
        let mut blocks = 0.0;
        for i in (0..j).rev() {
            blocks += live[i];
            let half_a_page = if blocks > 0.0 { page / 2.0 } else { 0.0 };
            let cost = best[i] + page * blocks / capacity + half_a_page;
            if cost < best[j] {
                (best[j], from[j]) = (cost, i);
            }
        }
    }

    let ends = core::iter::successors(Some(sizes.len()), |&end| Some(from[end]));
    let mut classes: Vec<u32> = ends
        .take_while(|&end| end > 0)
        .map(|end| {
            let fitting = page_size / (page_size / sizes[end - 1]) / unit * unit;
            fitting.clamp(sizes[end - 1], u32::MAX as usize / unit * unit) as u32
        })
        .collect();
    classes.reverse();
    classes.dedup();
    classes
}

#[cfg(all(test, feature = "std", feature = "strategies"))]
mod tests {
    use super::*;

    #[test]
    fn page_fitting_classes_are_those_of_the_paper() {
        // Brent §5.1's algorithm, as printed.
        let p = 512;
        let mut expected = vec![8];
        while let Some(&last) = expected.last().filter(|&&last| last < p) {
            expected.push((last + 1).max(p / (p / last - 1).max(1)));
        }
        // Brent's recurrence steps from s to the next capacity; ours enlarges s first. Only the
        // capacities count, and both have the same.
        let ours: Vec<usize> = SizeMap::PageFitting.classes(1, p, p).filter(|&s| s >= 8).collect();
        let capacities = |sizes: &[usize]| {
            let mut capacities: Vec<usize> = sizes.iter().map(|s| p / s).collect();
            capacities.dedup();
            capacities
        };
        assert_eq!(capacities(&ours), capacities(&expected));
        assert!(ours.len() <= 2 * 23 + 1, "k is about twice the root of p: {}", ours.len());
    }

    #[test]
    fn geometric_classes_end_with_the_largest_size() {
        let ratio = core::f64::consts::E;
        let classes: Vec<usize> = SizeMap::Geometric { ratio }.classes(1, 500, 512).collect();
        assert_eq!(classes, [1, 2, 5, 13, 35, 95, 258, 500]);
    }

    #[test]
    fn classes_ascend_in_units_and_end_where_asked() {
        for sizemap in [SizeMap::Linear, SizeMap::PageFitting, SizeMap::Geometric { ratio: 1.3 }] {
            for (unit, largest, page_size) in [(1, 100, 512), (8, 120, 512), (16, 1 << 14, 1 << 16)]
            {
                let classes: Vec<usize> = sizemap.classes(unit, largest, page_size).collect();
                assert!(classes.is_sorted_by(|a, b| a < b));
                assert!(classes.iter().all(|class| class % unit == 0));
                assert!(*classes.last().unwrap() >= largest);
            }
        }
    }

    /// Returns the memory that a SIZEMAP is expected to take, counted class by class.
    fn expected_memory(demand: &[Demand], classes: &[u32], page_size: usize) -> f64 {
        let mut below = 0;
        let mut memory = 0.0;
        for &class in classes {
            let served = below + 1..=class as usize;
            let blocks: f64 =
                demand.iter().filter(|d| served.contains(&d.size)).map(|d| d.live).sum();
            if blocks > 0.0 {
                let page = page_size as f64;
                memory += page * blocks / (page_size / class as usize) as f64 + page / 2.0;
            }
            below = class as usize;
        }
        memory
    }

    #[test]
    fn the_optimum_is_no_worse_than_any_choice_of_classes() {
        let demand = [(8, 40.0), (24, 300.0), (32, 3.0), (56, 90.0), (104, 20.0), (120, 1.0)]
            .map(|(size, live)| Demand { size, live });
        let best = optimise(&demand, 8, 128, 512);
        let least = expected_memory(&demand, &best, 512);
        let candidates = [8u32, 24, 32, 56, 104, 120];
        for subset in 0u32..1 << candidates.len() {
            let mut classes: Vec<u32> =
                (0..6).filter(|bit| subset >> bit & 1 == 1).map(|bit| candidates[bit]).collect();
            classes.push(128);
            let memory = expected_memory(&demand, &classes, 512);
            assert!(least <= memory + 1e-9, "{classes:?} takes {memory}, {best:?} {least}");
        }
    }

    #[test]
    fn no_demand_still_serves_every_size() {
        assert_eq!(optimise(&[], 16, 1 << 14, 1 << 16), [1 << 14]);
        assert_eq!(optimise(&[], 16, 0, 1 << 16), [16]);
        let odd = [Demand { size: 0, live: 9.0 }, Demand { size: 99_999, live: 9.0 }];
        assert_eq!(optimise(&odd, 16, 4096, 1 << 16), [4096]);
    }
}
