//! Every named strategy, with its source in the literature: as a type, for programs that choose at
//! compile time, and with `std` by name, for tools that choose at run time.
//!
//! ```
//! use core::alloc::Layout;
//! use pagewise::catalogue::{self, MostFree};
//! use pagewise::{Strategy, pages::Config, source::Reserved};
//!
//! let mut heap = MostFree::new(Config::new(), Reserved::new(1 << 30), ());
//! let mut same = catalogue::find("MOST-FREE").unwrap().build(Config::new(), 1 << 30)?;
//! assert!(heap.allocate(Layout::new::<u64>()).is_ok());
//! assert!(same.allocate(Layout::new::<u64>()).is_ok());
//! # Ok::<(), pagewise::pages::ConfigError>(())
//! ```
//!
//! The constructor of each strategy takes a [`Source`](crate::Source) of memory and a
//! [`Meter`](crate::meter::Meter), which may be `()`. The documentation of the type lists the other
//! parameters. All strategies implement [`Strategy`](crate::Strategy).

/// Defines a family of strategies, as types and by name. This is the only place where a strategy is
/// entered. The macro takes the family's name on a command line, its origin, and the module that
/// explains it; then one row for each strategy, in the order of the paper:
/// ```text
/// NAME, paper and section,
/// what it does,
/// [attributes] (constructor) { its type, if it has a name }
/// ```
/// The attributes are methods of [`Entry`]: `linear`, `apart` (not `in_band`), `not_reused`,
/// `compared`, `chosen`, `of_arenas` (ships with the configuration of an arena). The constructor
/// takes a configuration, a source and a meter. It is a closure, or a keyword and a type:
/// - `paged`: the type's `new`, which takes the configuration;
/// - `growing`: the type's `new`, which takes the configuration's page size;
/// - `constant`: the type's `constant`, which takes only source and meter.
macro_rules! family {
    (
        $family:literal, $origin:literal, $module:literal;
        $($name:literal, $paper:literal, $about:literal,
            [$($flag:ident)*] $make:tt { $($strategy:item)? })*
    ) => {
        $($(
            #[doc = concat!($name, ": ", $about, " (", $paper, ").\n\n")]
            #[doc = made!($make)]
            #[doc = concat!("Explained in [`", $module, "`](crate::", $module, ").\n\n")]
            $strategy
        )?)*

        #[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
        pub(super) const FAMILY: crate::catalogue::Family = crate::catalogue::Family {
            name: $family,
            source: $origin,
            entries: &[$(entry!($name, $paper, $about, $make)$(.$flag())*),*],
        };
    };
}

/// Describes a strategy's constructor, for the documentation of its type.
macro_rules! made {
    ((paged $strategy:ident)) => {
        "Made by `new(config, source, meter)`, with a [`Config`](crate::pages::Config)."
    };
    ((growing $strategy:ident)) => {
        "Made by `new(growth, source, meter)`: the heap grows by multiples of `growth` bytes, 64 KiB for \
         example."
    };
    ((constant $strategy:ident)) => {
        "Made by `constant(source, meter)`: its [`Settings`](crate::hybrid::Settings) are built in."
    };
    ((|$config:pat_param, $source:ident, $meter:ident| $strategy:expr)) => {
        "Made by its `new`, with parameters of its own."
    };
}

/// Makes an [`Entry`] without attributes.
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
macro_rules! entry {
    ($name:literal, $paper:literal, $about:literal, (paged $strategy:ident)) => {
        entry!(
            $name,
            $paper,
            $about,
            (|config, source, meter| { $strategy::new(config, source, meter) })
        )
    };
    ($name:literal, $paper:literal, $about:literal, (growing $strategy:ident)) => {
        entry!(
            $name,
            $paper,
            $about,
            (|config, source, meter| { $strategy::new(config.page_size, source, meter) })
        )
    };
    ($name:literal, $paper:literal, $about:literal, (constant $strategy:ident)) => {
        entry!($name, $paper, $about, (|_, source, meter| $strategy::constant(source, meter)))
    };
    (
        $name:literal, $paper:literal, $about:literal,
        (|$config:pat_param, $source:ident, $meter:ident| $strategy:expr)
    ) => {
        crate::catalogue::Entry {
            name: $name,
            source: $paper,
            about: $about,
            linear: false,
            in_band: true,
            reuses: true,
            compared: false,
            chosen: false,
            config: crate::pages::Config::new(),
            plain: |$config, capacity| {
                let ($source, $meter) = (crate::source::Reserved::new(capacity), ());
                Box::new($strategy)
            },
            over: |$config, $source, $meter| Box::new($strategy),
        }
    };
}

mod brent;
mod default;
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod entry;
mod fits;
mod hasan;
mod head_firsts;
mod lazy;
pub mod nielsen;

pub use self::brent::*;
pub use self::default::*;
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
pub use self::entry::{Entry, Family};
pub use self::fits::*;
pub use self::hasan::*;
pub use self::head_firsts::*;
pub use self::lazy::*;

/// All families: those of the papers, then the default.
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
const FAMILIES: &[Family] = &[
    brent::FAMILY,
    fits::FAMILY,
    nielsen::FAMILY,
    head_firsts::FAMILY,
    hasan::FAMILY,
    lazy::FAMILY,
    default::FAMILY,
];

/// Returns all families: those of the papers, then the default.
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
#[must_use]
pub fn families() -> &'static [Family] {
    FAMILIES
}

/// Returns all named strategies, family by family.
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
pub fn all() -> impl Iterator<Item = &'static Entry> + Clone {
    families().iter().flat_map(|family| family.entries)
}

/// Returns the strategy with this name; case does not matter.
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    all().find(|entry| entry.name.eq_ignore_ascii_case(name))
}
