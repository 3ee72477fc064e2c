//! The request to a recorder that was loaded into a running process: [`Request`].
//!
//! The tool that makes the process load the recorder writes the request into the recorder's memory,
//! as words, before any call of the program reaches it. The recorder has no environment to read,
//! and cannot look up functions, as the loader's lock may be held.
//! ```text
//!  READY │ function × 13 │ most bytes of a log │ frames of a stack │ bytes of the directory │ its text
//! ```

/// The recorded functions, and one more that finds the file of an address. A recorder has a
/// function of each of these names except the last.
pub const FUNCTIONS: [&str; 13] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "malloc_usable_size",
    "dlclose",
    "reallocarray",
    "_dl_find_object",
];

/// The name of the recorder's variable that receives a request: [`WORDS`] words.
pub const REQUEST: &str = "pagewise_record_request";

/// Words of a request.
pub const WORDS: usize = DIRECTORY + LONGEST / 8;

const READY: u64 = u64::from_be_bytes(*b"pwattach");
const LOG: usize = 1 + FUNCTIONS.len();
const STACKS: usize = LOG + 1;
const LEN: usize = LOG + 2;
const DIRECTORY: usize = LOG + 3;
/// Maximum length of the directory.
const LONGEST: usize = 1024;

/// A request to a recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The addresses of [`FUNCTIONS`]; 0 if there is none.
    pub functions: [u64; FUNCTIONS.len()],
    /// Maximum bytes of a log, if limited.
    pub max_log: Option<u64>,
    /// Maximum frames of a call stack; 0: none.
    pub stacks: u64,
    /// The directory for the logs: an absolute path.
    pub directory: &'a [u8],
}

impl Request<'_> {
    /// Encodes the request as words; `None` if the directory's path is longer than 1,023 bytes.
    #[must_use]
    pub fn to_words(&self) -> Option<[u64; WORDS]> {
        if self.directory.len() >= LONGEST {
            return None;
        }
        let mut words = [0; WORDS];
        words[0] = READY;
        words[1..LOG].copy_from_slice(&self.functions);
        words[LOG] = self.max_log.unwrap_or(u64::MAX);
        words[STACKS] = self.stacks;
        words[LEN] = self.directory.len() as u64;
        for (word, bytes) in words[DIRECTORY..].iter_mut().zip(self.directory.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(padded);
        }
        Some(words)
    }
}

/// Decodes words; `None` if they contain no request. Copies the directory to `text`.
#[cfg(any(test, all(target_os = "linux", target_has_atomic = "64")))]
pub(super) fn read(word: impl Fn(usize) -> u64, text: &mut [u8; LONGEST]) -> Option<Request<'_>> {
    if word(0) != READY {
        return None;
    }
    for (index, bytes) in text.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&word(DIRECTORY + index).to_ne_bytes());
    }
    Some(Request {
        functions: core::array::from_fn(|index| word(1 + index)),
        max_log: Some(word(LOG)).filter(|&most| most != u64::MAX),
        stacks: word(STACKS),
        directory: text.get(..usize::try_from(word(LEN)).ok()?)?,
    })
}

/// A buffer for the directory of a request that is [read].
#[cfg(any(test, all(target_os = "linux", target_has_atomic = "64")))]
pub(super) const ROOM: [u8; LONGEST] = [0; LONGEST];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_back() {
        for (directory, max_log) in [(&b"/tmp/logs"[..], None), (&[b'x'; 1023], Some(7))] {
            let functions = core::array::from_fn(|index| index as u64 + 5);
            let request = Request { functions, max_log, stacks: 64, directory };
            let words = request.to_words().unwrap();
            assert_eq!(read(|at| words[at], &mut ROOM.clone()), Some(request));
        }
        assert_eq!(read(|_| 0, &mut ROOM.clone()), None);
        let long = Request { functions: [0; 13], max_log: None, stacks: 0, directory: &[1; 1024] };
        assert_eq!(long.to_words(), None);
    }
}
