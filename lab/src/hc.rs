//! Parses the parameters of the tunable hybrid: `--hc QL_HIGH=144,SPLIT=off`.

use pagewise::hybrid::Settings;
use pagewise_replay::units::parse_bytes;

/// A parameter: its name, its parser and its formatters.
struct Parameter {
    name: &'static str,
    set: fn(Settings, &str) -> Result<Settings, String>,
    get: fn(&Settings) -> String,
    /// The name of the method that sets it.
    method: &'static str,
    /// Formats the method's argument.
    argument: fn(&Settings) -> String,
}

macro_rules! parameters {
    ($($name:literal $field:ident: $kind:ident;)*) => {
        &[$(Parameter {
            name: $name,
            set: |settings, text| Ok(settings.$field($kind::read(text)?)),
            get: |settings| $kind::format(settings.$field),
            method: stringify!($field),
            argument: |settings| $kind::code(settings.$field),
        }),*]
    };
}

/// All parameters, with the paper's names or after its descriptions.
const PARAMETERS: &[Parameter] = parameters! {
    "QL_HIGH" ql_high: bytes;
    "COALESCE" coalesce: switch;
    "COALESCE_QL" coalesce_ql: switch;
    "THRESHOLD" threshold: number;
    "STRICT_THRESHOLD" strict_threshold: switch;
    "COALESCE_IN_FREE" coalesce_in_free: switch;
    "FEW_BLOCKS" few_blocks: number;
    "MUCH_HELD" much_held: bytes;
    "SPLIT" split: switch;
    "MONITOR" monitor: switch;
    "PREALLOCATE" preallocate: number;
    "MMAP_THRESHOLD" mmap_threshold: bytes;
    "GROWTH" growth: bytes;
};

/// Settings to start from.
const PRESETS: [(&str, Settings); 3] = [
    ("HCGEN", Settings::generic()),
    ("HCMEM", Settings::memory()),
    ("HCPERF", Settings::performance()),
];

mod switch {
    pub(super) fn read(text: &str) -> Result<bool, String> {
        match text.to_ascii_lowercase().as_str() {
            "on" | "1" => Ok(true),
            "off" | "0" => Ok(false),
            _ => Err(format!("'{text}' is neither on nor off")),
        }
    }

    pub(super) fn format(on: bool) -> String {
        if on { "on" } else { "off" }.to_owned()
    }

    pub(super) fn code(on: bool) -> String {
        on.to_string()
    }
}

mod number {
    pub(super) fn read<N: std::str::FromStr>(text: &str) -> Result<N, String> {
        text.parse().map_err(|_| format!("'{text}' is not a number in range"))
    }

    pub(super) fn format(number: impl ToString) -> String {
        number.to_string()
    }

    pub(super) fn code(number: impl ToString) -> String {
        number.to_string()
    }
}

mod bytes {
    pub(super) fn read(text: &str) -> Result<usize, String> {
        if text.eq_ignore_ascii_case("never") {
            return Ok(usize::MAX);
        }
        super::parse_bytes(text)
    }

    pub(super) fn format(bytes: usize) -> String {
        if bytes == usize::MAX { "never".to_owned() } else { bytes.to_string() }
    }

    pub(super) fn code(bytes: usize) -> String {
        if bytes == usize::MAX { "usize::MAX".to_owned() } else { bytes.to_string() }
    }
}

/// Parses settings: changes to those of HCGEN, or of a preset that comes first.
///
/// # Errors
/// The first parameter that does not exist or has an invalid value.
pub(crate) fn parse(text: &str) -> Result<Settings, String> {
    let mut settings = Settings::generic();
    for (place, part) in text.split(',').map(str::trim).enumerate() {
        let Some((name, value)) = part.split_once('=') else {
            let preset = PRESETS.iter().find(|(name, _)| name.eq_ignore_ascii_case(part));
            let (_, preset) = preset.filter(|_| place == 0).ok_or_else(|| {
                format!(
                    "'{part}' is not of the form NAME=VALUE; HCGEN, HCMEM or HCPERF may only \
                         come first"
                )
            })?;
            settings = *preset;
            continue;
        };
        let of_name = |one: &&Parameter| one.name.eq_ignore_ascii_case(name.trim());
        let parameter = PARAMETERS.iter().find(of_name).ok_or_else(|| {
            let names: Vec<_> = PARAMETERS.iter().map(|one| one.name).collect();
            format!("unknown parameter {name}; expected one of {}", names.join(", "))
        })?;
        settings = (parameter.set)(settings, value.trim())
            .map_err(|error| format!("{}: {error}", parameter.name))?;
    }
    settings.check().map_err(|error| error.to_string())?;
    Ok(settings)
}

/// Formats all settings as [`parse`] reads them.
pub(crate) fn formatted(settings: &Settings) -> String {
    let told = PARAMETERS.iter().map(|one| format!("{}={}", one.name, (one.get)(settings)));
    told.collect::<Vec<_>>().join(",")
}

/// Returns the methods, each with its argument, that make these settings from those of HCGEN.
pub(crate) fn changes(settings: &Settings) -> Vec<(&'static str, String)> {
    let changed = PARAMETERS.iter().filter_map(|one| {
        let argument = (one.argument)(settings);
        (argument != (one.argument)(&Settings::generic())).then_some((one.method, argument))
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_settings_can_be_parsed() {
        for (name, preset) in PRESETS {
            assert_eq!(parse(name), Ok(preset));
            assert_eq!(parse(&formatted(&preset)), Ok(preset));
        }
        let settings = Settings::performance().ql_high(528).split(false).strict_threshold(true);
        assert_eq!(parse("hcperf, ql_high=528, SPLIT=off, strict_threshold=on"), Ok(settings));
        assert_eq!(parse(&formatted(&settings)), Ok(settings));
        assert_eq!(parse("GROWTH=64K"), Ok(Settings::generic().growth(1 << 16)));
        assert_eq!(parse("MMAP_THRESHOLD=never").unwrap().mmap_threshold, usize::MAX);
    }

    /// The compiler cannot tell, as the settings are non-exhaustive.
    #[test]
    fn every_field_is_a_parameter() {
        let fields = format!("{:#?}", Settings::generic());
        let fields = fields.lines().filter_map(|line| Some(line.trim().split_once(':')?.0));
        let parameters = PARAMETERS.iter().map(|one| one.method);
        assert_eq!(fields.collect::<Vec<_>>(), parameters.collect::<Vec<_>>());
    }

    #[test]
    fn invalid_settings_are_refused() {
        let error = |text| parse(text).unwrap_err();
        assert!(
            error("QL_LOW=1")
                .starts_with("unknown parameter QL_LOW; expected one of QL_HIGH, COALESCE")
        );
        assert!(error("SPLIT=2").contains("SPLIT: '2' is neither on nor off"));
        assert!(error("QL_HIGH=100").contains("multiple of 16"));
        assert!(error("THRESHOLD=x").contains("THRESHOLD: 'x' is not a number"));
        assert!(error("SPLIT=on,HCMEM").contains("may only come first"));
        assert!(error("").contains("of the form NAME=VALUE"));
    }
}
