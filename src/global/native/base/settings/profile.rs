//! The profile's settings: `PAGEWISE_PROFILE=file[:bytes per sample]`,
//! `PAGEWISE_PROFILE_SIGNAL=USR1`.

use super::super::sampler;
#[cfg(all(feature = "profiler", target_os = "linux"))]
use super::environment;

/// Whether the profiler is part of this build.
const KNOWN: bool = cfg!(all(feature = "profiler", target_os = "linux"));

/// The values that the setting of the profile's file takes, in words.
pub(super) const TAKES_FILE: &str = if KNOWN {
    "a file, perhaps with `:` and bytes per sample from 1 to 1073741824"
} else {
    "nothing, since the program has no heap profiler (feature `profiler`, on Linux)"
};

/// The values that the setting of the signal takes, in words.
pub(super) const TAKES_SIGNAL: &str = if KNOWN {
    "USR1, USR2, HUP, PROF, URG, their number, or one from 34 to 64"
} else {
    "nothing, since the program has no heap profiler (feature `profiler`, on Linux)"
};

/// Bytes per sample if a value names none.
const MEAN: usize = 512 << 10;

/// Splits a value into the file and the text behind its last colon, if that is a number.
fn parts(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((file, mean))
            if !mean.is_empty() && mean.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            (file, Some(mean))
        }
        _ => (text, None),
    }
}

/// Returns the mean bytes between two samples that a value asks for.
pub(super) fn mean_of(text: &str) -> Option<usize> {
    let (file, mean) = parts(text);
    let mean = mean.map_or(Some(MEAN), |mean| mean.parse().ok())?;
    let valid = sampler::MEANS.contains(&mean);
    (KNOWN && valid && !file.is_empty()).then_some(mean)
}

/// Returns the number of a signal that a program can spare.
pub(super) fn signal_of(text: &str) -> Option<i32> {
    #[cfg(target_os = "linux")]
    {
        let named = [
            ("HUP", libc::SIGHUP),
            ("USR1", libc::SIGUSR1),
            ("USR2", libc::SIGUSR2),
            ("PROF", libc::SIGPROF),
            ("URG", libc::SIGURG),
        ];
        let name = text.strip_prefix("SIG").unwrap_or(text);
        let number = name.parse::<i32>().ok();
        let is_meant = |&&(known, signal): &&(&str, i32)| known == name || number == Some(signal);
        let real_time = number.filter(|number| (34..=64).contains(number));
        let signal = named.iter().find(is_meant).map(|&(_, signal)| signal).or(real_time)?;
        KNOWN.then_some(signal)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = text;
        None
    }
}

/// Writes the profile's path to the start of `to`, and returns its length; `None` if it does not
/// fit, or no profile is set.
#[cfg(all(feature = "profiler", target_os = "linux"))]
pub(in crate::global::native) fn path(to: &mut [u8]) -> Option<usize> {
    let copy = |value: &[u8]| {
        let (file, _) = parts(core::str::from_utf8(value).ok()?.trim());
        to.get_mut(..file.len())?.copy_from_slice(file.as_bytes());
        Some(file.len())
    };
    environment::variable(c"PAGEWISE_PROFILE", copy).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_a_rate_are_told_apart() {
        for (value, file, mean) in [
            ("out.pb.gz", "out.pb.gz", Some(MEAN)),
            ("out.pb.gz:4096", "out.pb.gz", Some(4096)),
            ("a:b", "a:b", Some(MEAN)),
            ("a:7:1", "a:7", Some(1)),
            ("a:", "a:", Some(MEAN)),
            (":8", "", None),
            ("a:0", "a", None),
            ("a:99999999999999999999", "a", None),
            ("a:2147483648", "a", None),
            ("", "", None),
        ] {
            assert_eq!(parts(value).0, file, "{value}");
            assert_eq!(mean_of(value), mean.filter(|_| KNOWN), "{value}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn signals_have_names_and_numbers() {
        for (value, signal) in [
            ("USR1", Some(libc::SIGUSR1)),
            ("SIGUSR2", Some(libc::SIGUSR2)),
            ("10", Some(10)),
            ("40", Some(40)),
            ("9", None),
            ("SEGV", None),
            ("65", None),
            ("usr1", None),
            ("", None),
        ] {
            assert_eq!(signal_of(value), signal.filter(|_| KNOWN), "{value}");
        }
    }
}
