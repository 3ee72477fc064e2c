//! When events happened: [`Times`], samples of a clock along a trace.
//!
//! ```text
//!  number of samples, then each: events and nanoseconds since the sample before (0, 0 at first)
//! ```
//! A recorder reads the clock every few hundred events. For a long run that is more than needed:
//! [`Sampler`] keeps at most [`KEPT`] samples, evenly spaced by events.

use super::error::Reason;
use super::varint;

/// Maximum number of samples written.
const KEPT: usize = 1024;
/// Maximum number of samples read.
const MOST: u64 = 1 << 16;

/// A clock sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sample {
    /// Number of events before it.
    pub event: u64,
    /// Nanoseconds since the recording began.
    pub nanoseconds: u64,
}

/// When the events of a trace happened, as far as clock samples show. Neither the events nor the
/// times of the samples ever decrease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    samples: Vec<Sample>,
}

impl Times {
    /// Returns the samples, in order.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Returns the nanoseconds from the beginning of the recording to the moment after `events`
    /// events. Interpolates between two samples; before the first and after the last sample it
    /// returns that sample's time. `None` without samples. O(log samples).
    #[must_use]
    pub fn at(&self, events: u64) -> Option<u64> {
        let after = self.samples.partition_point(|sample| sample.event <= events);
        let Some(before) = after.checked_sub(1).map(|before| self.samples[before]) else {
            return self.samples.first().map(|first| first.nanoseconds);
        };
        let Some(next) = self.samples.get(after) else { return Some(before.nanoseconds) };
        let share =
            u128::from(events - before.event) * u128::from(next.nanoseconds - before.nanoseconds);
        // Less than the difference of the times, which fits.
        let passed = (share / u128::from(next.event - before.event)) as u64;
        Some(before.nanoseconds + passed)
    }

    /// Encodes the samples as a frame's content.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        varint::write(&mut out, self.samples.len() as u64);
        let mut last = Sample::default();
        for &sample in &self.samples {
            varint::write(&mut out, sample.event - last.event);
            varint::write(&mut out, sample.nanoseconds - last.nanoseconds);
            last = sample;
        }
        out
    }

    /// Decodes what [`encode`](Self::encode) returns, in a trace of `events` events; accepts any
    /// bytes.
    pub(crate) fn decode(mut bytes: &[u8], events: u64) -> Result<Self, Reason> {
        let mut number = || varint::read(&mut bytes).ok_or(Reason::Times("a number is cut short"));
        let count = number()?;
        if count > MOST {
            return Err(Reason::Times("there are too many"));
        }
        let mut last = Sample::default();
        let samples = (0..count).map(|_| {
            let event = last.event.checked_add(number()?).filter(|&event| event <= events);
            let nanoseconds = last.nanoseconds.checked_add(number()?);
            last = Sample {
                event: event.ok_or(Reason::Times("one lies behind the last event"))?,
                nanoseconds: nanoseconds.ok_or(Reason::Times("one is out of bounds"))?,
            };
            Ok(last)
        });
        let samples = samples.collect::<Result<_, Reason>>()?;
        if !bytes.is_empty() {
            return Err(Reason::Times("extra data after the last"));
        }
        Ok(Self { samples })
    }
}

/// Collects samples and keeps enough of them.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    kept: Vec<Sample>,
    /// The last one, if it was not kept: the trace may end there.
    last: Option<Sample>,
    /// Events between kept samples.
    stride: u64,
}

impl Sampler {
    /// Adds a clock sample.
    pub(crate) fn push(&mut self, event: u64, nanoseconds: u64) {
        let before = self.last.as_mut().or(self.kept.last_mut());
        // Threads may write in another order than they read the clock.
        let nanoseconds = before.as_ref().map_or(0, |before| before.nanoseconds).max(nanoseconds);
        match before {
            Some(before) if before.event == event => return before.nanoseconds = nanoseconds,
            _ => {}
        }
        let sample = Sample { event, nanoseconds };
        if self.kept.last().is_some_and(|kept| event - kept.event < self.stride) {
            self.last = Some(sample);
            return;
        }
        self.last = None;
        self.kept.push(sample);
        if self.kept.len() == KEPT {
            self.thin(sample);
        }
    }

    /// Keeps about half of the samples, up to `last`.
    fn thin(&mut self, last: Sample) {
        self.stride = last.event.div_ceil(KEPT as u64 / 2);
        let mut next = 0;
        self.kept.retain(|sample| {
            let keep = sample.event >= next;
            if keep {
                next = sample.event + self.stride;
            }
            keep
        });
        self.last = Some(last).filter(|last| self.kept.last() != Some(last));
    }

    /// Returns the collected times.
    pub(crate) fn finish(self) -> Times {
        let Self { mut kept, last, .. } = self;
        kept.extend(last);
        Times { samples: kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(samples: &[(u64, u64)]) -> Times {
        let sample = |&(event, nanoseconds): &(u64, u64)| Sample { event, nanoseconds };
        Times { samples: samples.iter().map(sample).collect() }
    }

    #[test]
    fn times_between_samples_are_evenly_spread() {
        let times = times(&[(10, 100), (20, 200), (20, 300), (1 << 62, u64::MAX)]);
        for (events, expected) in
            [(0, 100), (10, 100), (15, 150), (19, 190), (20, 300), (1 << 62, u64::MAX)]
        {
            assert_eq!(times.at(events), Some(expected), "{events}");
        }
        assert_eq!(times.at(u64::MAX), Some(u64::MAX));
        assert_eq!(Times::default().at(7), None);
    }

    #[test]
    fn times_are_read_back_and_damage_is_an_error() {
        let times = times(&[(0, 5), (9, 5), (300, 1 << 40), (301, u64::MAX)]);
        let bytes = times.encode();
        assert_eq!(Times::decode(&bytes, 301).unwrap(), times);
        assert!(Times::decode(&bytes, 300).is_err(), "a sample behind the last event");
        for len in 0..bytes.len() {
            assert!(Times::decode(&bytes[..len], 301).is_err(), "{len}");
        }
        let more = [&bytes[..], &[0]].concat();
        assert!(Times::decode(&more, 301).is_err());
        // Beyond 2^64 nanoseconds; 2^40 samples.
        assert!(Times::decode(&[&[2, 0][..], &[0xff; 9], &[1, 0, 1]].concat(), 9).is_err());
        assert!(Times::decode(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x20], 9).is_err());
    }

    #[test]
    fn no_more_than_65536_samples_are_read() {
        let samples: Vec<_> = (0..=1 << 16).map(|event| (event, event)).collect();
        let most = times(&samples[1..]);
        assert_eq!(Times::decode(&most.encode(), 1 << 16).unwrap(), most);
        assert!(Times::decode(&times(&samples).encode(), 1 << 16).is_err());
    }

    /// When there are 1,024, every second one is kept, and every second event from then on.
    #[test]
    fn samples_are_evenly_spaced() {
        let mut sampler = Sampler::default();
        (0..2000).for_each(|event| sampler.push(event, event));
        let kept: Vec<u64> = sampler.finish().samples.iter().map(|sample| sample.event).collect();
        assert_eq!(kept, (0..2000).step_by(2).chain([1999]).collect::<Vec<_>>());
    }

    #[test]
    fn the_last_sample_is_kept_and_enough_others() {
        for (count, step) in
            [(0, 1), (1, 1), (KEPT as u64, 1), (5000, 1), (100_000, 7), (3_000_001, 300)]
        {
            let mut sampler = Sampler::default();
            (0..count).for_each(|index| sampler.push(index * step, index * 1000));
            let times = sampler.finish();
            let samples = times.samples();
            assert!(samples.len() <= KEPT && samples.len() as u64 >= count.min(KEPT as u64 / 2));
            let last = count.checked_sub(1);
            assert_eq!(samples.last().map(|last| last.event), last.map(|last| last * step));
            let widest = samples.windows(2).map(|two| two[1].event - two[0].event).max();
            assert!(widest.unwrap_or(0) <= (count * step).div_ceil(KEPT as u64 / 4) + step);
            assert_eq!(times.at(count / 2 * step), last.map(|_| count / 2 * 1000));
        }
    }

    #[test]
    fn a_clock_that_goes_backwards_is_clamped() {
        let mut sampler = Sampler::default();
        [(0, 50), (3, 40), (5, 60), (5, 90), (5, 10), (6, 70)]
            .into_iter()
            .for_each(|(event, nanoseconds)| sampler.push(event, nanoseconds));
        let found: Vec<_> =
            sampler.finish().samples.iter().map(|one| (one.event, one.nanoseconds)).collect();
        assert_eq!(found, [(0, 50), (3, 50), (5, 90), (6, 90)]);
    }
}
