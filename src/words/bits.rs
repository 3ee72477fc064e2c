//! Searching words of bits: bit b of word w is number 64w + b.

const BITS: usize = u64::BITS as usize;

pub(crate) fn get(words: &[u64], index: usize) -> bool {
    words[index / BITS] >> (index % BITS) & 1 != 0
}

pub(crate) fn set(words: &mut [u64], index: usize) {
    words[index / BITS] |= 1 << (index % BITS);
}

pub(crate) fn clear(words: &mut [u64], index: usize) {
    words[index / BITS] &= !(1 << (index % BITS));
}

/// Returns the least set bit from `from` on. O(words).
pub(crate) fn first(words: &[u64], from: usize) -> Option<usize> {
    let mut mask = !0 << (from % BITS);
    for (index, word) in words.iter().enumerate().skip(from / BITS) {
        let word = word & mask;
        if word != 0 {
            return Some(index * BITS + word.trailing_zeros() as usize);
        }
        mask = !0;
    }
    None
}

/// Returns the greatest set bit up to `to`, inclusive. O(words).
pub(crate) fn last(words: &[u64], to: usize) -> Option<usize> {
    let mut mask = !0 >> (BITS - 1 - to % BITS);
    for (index, word) in words.iter().enumerate().take(to / BITS + 1).rev() {
        let word = word & mask;
        if word != 0 {
            return Some(index * BITS + BITS - 1 - word.leading_zeros() as usize);
        }
        mask = !0;
    }
    None
}

/// Returns the set bits, ascending.
pub(crate) fn iter(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(index, &word)| {
        let mut rest = word;
        core::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(index * BITS + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_plain_search() {
        let mut words = [0; 5];
        let members = [0, 1, 63, 64, 130, 199, 255, 319];
        for index in members {
            set(&mut words, index);
        }
        for index in 0..320 {
            assert_eq!(get(&words, index), members.contains(&index));
            assert_eq!(first(&words, index), members.into_iter().find(|&m| m >= index));
            assert_eq!(last(&words, index), members.into_iter().rev().find(|&m| m <= index));
        }
        assert_eq!(iter(&words).collect::<Vec<_>>(), members);
        clear(&mut words, 130);
        assert!(!get(&words, 130) && get(&words, 199));
        assert_eq!(first(&words, 65), Some(199));
        assert_eq!(first(&words, 320), None);
    }
}
