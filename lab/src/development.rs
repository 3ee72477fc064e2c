//! Whether this program is built to measure with.

/// Returns a warning, above the results, if this is a development build.
pub(crate) fn warning() -> Option<&'static str> {
    cfg!(debug_assertions).then_some(
        "This pagewise is a development build: times of its own allocators mean nothing (`cargo \
         build --release` makes one to measure with).",
    )
}
