//! Parameters that pull the paged strategies in different directions, for the tests of properties
//! and placements.

use pagewise::pages::Config;
use pagewise::sizemap::SizeMap;

/// The machine of the papers.
pub(crate) const PAPERS: Config = Config::new().page_size(512).unit(8).ffcrossover(120);

/// All sizes from pages; every size is a class; a high tolerance.
pub(crate) const LINEAR: Config =
    Config::new().page_size(4096).ffcrossover(4096).sizemap(SizeMap::Linear).freetol(1638);

/// Few classes; blocks aligned to 4 bytes only.
pub(crate) const GEOMETRIC: Config = Config::new()
    .page_size(2048)
    .unit(4)
    .ffcrossover(2048)
    .sizemap(SizeMap::Geometric { ratio: core::f64::consts::E });

/// Explicit classes, with FIRST-FIT above the last one.
pub(crate) const CLASSES: Config = Config::new()
    .page_size(1024)
    .unit(8)
    .ffcrossover(512)
    .sizemap(SizeMap::Classes(&[24, 48, 200]))
    .freetol(400);
