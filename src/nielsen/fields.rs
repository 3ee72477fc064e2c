//! Overhead fields: the words of a block beside its contents (Nielsen 1977, Table III, "Overhead
//! space"), written as in the table: `(Size, Double, Preceding)` is S + DP + B.

/// S: the block's length, and whether it is available. Every block has it.
#[derive(Debug)]
pub struct Size;

/// BP or B: a pointer back to the block that precedes this one in memory. Every block has it.
#[derive(Debug)]
pub struct Preceding;

/// FP: a pointer forward on a free list. It is within the contents, as only a free block has it.
#[derive(Debug)]
pub struct Forward;

/// DP: pointers forward and back on a free list, within the contents as [`Forward`] is.
#[derive(Debug)]
pub struct Double;

/// The overhead fields of an algorithm's blocks.
pub trait Fields {
    /// Whether a block points to the one that precedes it in memory.
    const BACK: bool;
    /// Pointers that a free block has on a free list.
    const LINKS: u32;
    /// Words before the contents.
    const HEADER: u32 = 1 + Self::BACK as u32;
    /// Words of the least block: it holds its pointers when free, and a word when in use.
    const LEAST: u32 = Self::HEADER + if Self::LINKS > 0 { Self::LINKS } else { 1 };
}

macro_rules! fields {
    ($($fields:ty: $back:literal, $links:literal;)*) => {$(
        impl Fields for $fields {
            const BACK: bool = $back;
            const LINKS: u32 = $links;
        }
    )*};
}

fields! {
    (Size,): false, 0;
    (Size, Preceding): true, 0;
    (Size, Forward): false, 1;
    (Size, Double): false, 2;
    (Size, Forward, Preceding): true, 1;
    (Size, Double, Preceding): true, 2;
}
