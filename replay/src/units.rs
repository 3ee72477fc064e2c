//! Formats numbers for people: bytes with binary suffixes, separated thousands.

/// Parses a number of bytes: `4096`, `64K`, `64KiB`, `1.5M`, `2G`, `1T`. A fraction of a byte is
/// dropped.
///
/// # Errors
/// If the text is not a number of bytes.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let shift: u32 = match suffix.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(format!("unknown suffix '{suffix}'; expected K, M, G or T")),
    };
    let wrong = || "not a number of bytes".to_owned();
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u128 = whole.parse().map_err(|_| wrong())?;
    let fraction: u128 = decimals.parse().map_err(|_| wrong())?;
    // A byte has no decimals; nine are more than the output has, and let the product fit.
    let places = decimals.len() as u32;
    if places > 9 || (shift == 0 && number.contains('.')) {
        return Err(wrong());
    }
    let bytes = whole
        .checked_mul(1 << shift)
        .map(|bytes| bytes + (fraction << shift) / 10_u128.pow(places));
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| "too many bytes".to_owned())
}

/// Formats a number of bytes in the largest binary unit that leaves it at least 1: `64.0 KiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    // 1,048,575 bytes round to 1.0 MiB, not to 1024.0 KiB.
    while value >= (if unit == 0 { 1024.0 } else { 1023.95 }) && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// Formats a number with a comma between thousands: `1,234,567`.
pub fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a duration, in at most two units: `0.4 ms`, `850 ms`, `12.3 s`, `4 min 5 s`, `2 h 30
/// min`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match seconds {
        _ if whole >= 3600 => format!("{} h {} min", thousands(whole / 3600), whole / 60 % 60),
        _ if whole >= 60 => format!("{} min {} s", whole / 60, whole % 60),
        _ if seconds >= 0.9995 => format!("{seconds:.1} s"),
        _ if seconds >= 0.00995 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{:.1} ms", seconds * 1e3),
    }
}

/// Formats a number and its noun: `1 trace`, `2 traces`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_and_without_suffix() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("64K"), Ok(65_536));
        assert_eq!(parse_bytes("1 MiB"), Ok(1 << 20));
        assert_eq!(parse_bytes("1.5G"), Ok(3 << 29));
        assert_eq!(parse_bytes("1.05 KiB"), Ok(1075));
        assert_eq!(parse_bytes("1T"), Ok(1 << 40));
        assert_eq!(parse_bytes("16777215.9 TiB"), Ok(usize::MAX - 109_951_162_777));
        for wrong in [
            "",
            "K",
            "12Q",
            "-1",
            "99999999999G",
            "1.5",
            ".5K",
            "1.K",
            "1.2.3K",
            "1.0000000001K",
            "16777216T",
        ] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_written_readably() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(65_536), "64.0 KiB");
        assert_eq!(
            [1_048_524, 1_048_525, (1 << 30) - 1].map(bytes),
            ["1023.9 KiB", "1.0 MiB", "1.0 GiB"]
        );
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
        assert_eq!(thousands(7), "7");
        assert_eq!(thousands(1_234_567), "1,234,567");
        let texts = ["0.4 ms", "10 ms", "999 ms", "1.0 s", "12.3 s", "1 min 0 s", "2 h 30 min"];
        assert_eq!([0.000_41, 0.009_96, 0.9994, 0.9996, 12.34, 59.9, 9_000.0].map(duration), texts);
        assert_eq!(count(1, "trace"), "1 trace");
        assert_eq!(count(1000, "pair"), "1,000 pairs");
    }
}
