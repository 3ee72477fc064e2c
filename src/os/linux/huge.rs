//! The system's setting for transparent huge pages.

use super::quota::read;

/// Returns whether memory without any advice is backed with huge pages, also later on.
pub(crate) fn backs_all_with_huge_pages() -> bool {
    let mut buffer = [0; 64];
    let file = c"/sys/kernel/mm/transparent_hugepage/enabled";
    read(file, &mut buffer).is_some_and(is_always)
}

/// Returns whether the first of several settings, as in `always [madvise] never`, is the chosen
/// one.
fn is_always(settings: &[u8]) -> bool {
    settings.starts_with(b"[always]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_in_brackets_is_chosen() {
        assert!(is_always(b"[always] madvise never\n"));
        for other in ["always [madvise] never\n", "always madvise [never]\n", "", "[", "always"] {
            assert!(!is_always(other.as_bytes()), "{other}");
        }
        // The answer depends on the machine; the call must only not fail.
        backs_all_with_huge_pages();
    }
}
