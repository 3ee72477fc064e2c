//! How the system is set to use huge pages.

use super::quota::read;

/// Whether memory that nothing was said of is backed with huge pages, and made huge pages of by and by.
pub(crate) fn backs_all_with_huge_pages() -> bool {
    let mut buffer = [0; 64];
    let file = c"/sys/kernel/mm/transparent_hugepage/enabled";
    read(file, &mut buffer).is_some_and(is_always)
}

/// Of a choice among settings, as `always [madvise] never`: whether that is the first.
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
        // Whatever it is here, asking does no harm.
        backs_all_with_huge_pages();
    }
}
