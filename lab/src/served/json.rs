//! JSON forms of the library's parameters.

use pagewise::global::{HugePages, Tuning};
use pagewise::hybrid;
use pagewise::pages::Config;
use pagewise::sizemap::SizeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The JSON form of [`Config`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Config")]
pub(super) struct ConfigJson {
    // Its fields are private, so serde reads it with getters and makes it with `From`.
    #[serde(getter = "page_size")]
    page_size: usize,
    unit: usize,
    #[serde(with = "SizeMapJson")]
    sizemap: SizeMap,
    freetol: usize,
    ffcrossover: usize,
    seed: u64,
}

fn page_size(config: &Config) -> usize {
    config.page_size
}

impl From<ConfigJson> for Config {
    fn from(json: ConfigJson) -> Self {
        Self::new()
            .page_size(json.page_size)
            .unit(json.unit)
            .sizemap(json.sizemap)
            .freetol(json.freetol)
            .ffcrossover(json.ffcrossover)
            .seed(json.seed)
    }
}

/// The JSON form of [`SizeMap`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "SizeMap")]
enum SizeMapJson {
    Linear,
    PageFitting,
    Geometric { ratio: f64 },
    Classes(#[serde(deserialize_with = "leaked")] &'static [u32]),
}

/// Leaks a few hundred bytes, since a `SizeMap` needs static classes.
fn leaked<'de, D: Deserializer<'de>>(from: D) -> Result<&'static [u32], D::Error> {
    Ok(Vec::<u32>::deserialize(from)?.leak())
}

/// The JSON form of [`hybrid::Settings`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "hybrid::Settings")]
pub(super) struct HybridJson {
    // As for `ConfigJson::page_size`.
    #[serde(getter = "ql_high")]
    ql_high: usize,
    coalesce: bool,
    coalesce_ql: bool,
    threshold: u32,
    strict_threshold: bool,
    coalesce_in_free: bool,
    few_blocks: usize,
    much_held: usize,
    split: bool,
    monitor: bool,
    preallocate: u32,
    mmap_threshold: usize,
    growth: usize,
}

fn ql_high(settings: &hybrid::Settings) -> usize {
    settings.ql_high
}

impl From<HybridJson> for hybrid::Settings {
    fn from(json: HybridJson) -> Self {
        Self::generic()
            .ql_high(json.ql_high)
            .coalesce(json.coalesce)
            .coalesce_ql(json.coalesce_ql)
            .threshold(json.threshold)
            .strict_threshold(json.strict_threshold)
            .coalesce_in_free(json.coalesce_in_free)
            .few_blocks(json.few_blocks)
            .much_held(json.much_held)
            .split(json.split)
            .monitor(json.monitor)
            .preallocate(json.preallocate)
            .mmap_threshold(json.mmap_threshold)
            .growth(json.growth)
    }
}

/// The JSON form of [`Tuning`].
#[derive(Serialize, Deserialize)]
pub(super) struct TuningJson {
    #[serde(with = "ConfigJson")]
    pages: Config,
    quick_blocks: u32,
    quick_bytes: u32,
    heaps_per_cpu: u32,
    mapping_from: usize,
    purge_delay: u32,
    #[serde(with = "HugePagesJson")]
    huge_pages: HugePages,
    background: bool,
}

impl TuningJson {
    pub(super) fn serialize<S: Serializer>(tuning: &Tuning, to: S) -> Result<S::Ok, S::Error> {
        let json = Self {
            pages: tuning.pages,
            quick_blocks: tuning.quick_blocks,
            quick_bytes: tuning.quick_bytes,
            heaps_per_cpu: tuning.heaps_per_cpu,
            mapping_from: tuning.mapping_from,
            purge_delay: tuning.purge_delay,
            huge_pages: tuning.huge_pages,
            background: tuning.background,
        };
        Serialize::serialize(&json, to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Tuning, D::Error> {
        let json = <Self as Deserialize>::deserialize(from)?;
        Ok(Tuning::new()
            .pages(json.pages)
            .quick_blocks(json.quick_blocks)
            .quick_bytes(json.quick_bytes)
            .heaps_per_cpu(json.heaps_per_cpu)
            .mapping_from(json.mapping_from)
            .purge_delay(json.purge_delay)
            .huge_pages(json.huge_pages)
            .background(json.background))
    }
}

/// The JSON form of [`HugePages`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "HugePages")]
enum HugePagesJson {
    System,
    Never,
    Always,
    Beyond(usize),
}
