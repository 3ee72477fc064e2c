#!/bin/sh
# Measures the bytes of machine code of each of Nielsen's 35 algorithms, as in the paper's column
# *Size* for Fortran on an IBM 360/65: a program that allocates and frees with the algorithm, minus
# one that does nothing.
#
#     papers/code_size.sh [s|2|3]     optimisation level; by default s, for size
#
# Needs `size` of the binutils.
set -eu
level=${1:-s}
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src/bin"
cat > "$work/Cargo.toml" <<END
[package]
name = "code-size"
version = "0.0.0"
edition = "2024"
[dependencies]
pagewise = { path = "$here", features = ["strategies"] }
[profile.release]
opt-level = "$level"
lto = true
codegen-units = 1
panic = "abort"
[workspace]
END
cp "$here/Cargo.lock" "$work/"
echo 'fn main() { std::hint::black_box(0); }' > "$work/src/bin/nothing.rs"
algorithms=$(sed -n 's/^    "\([IV]*-[0-9]\)" \([IV]*[0-9]\): .*/\1=\2/p' "$here/src/catalogue/nielsen.rs")
for algorithm in $algorithms; do
    type=${algorithm#*=}
    cat > "$work/src/bin/$type.rs" <<END
use std::alloc::Layout;
use std::hint::black_box;
use std::ptr::NonNull;

use pagewise::catalogue::nielsen::$type;
use pagewise::{Region, Strategy};

type Heap = $type<Region>;

#[inline(never)]
fn allocate(heap: &mut Heap, layout: Layout) -> Option<NonNull<[u8]>> {
    heap.allocate(layout).ok()
}

#[inline(never)]
unsafe fn free(heap: &mut Heap, block: NonNull<u8>, layout: Layout) {
    // SAFETY: nobody calls this.
    unsafe { heap.deallocate(block, layout) };
}

fn main() {
    black_box(allocate as fn(&mut Heap, Layout) -> Option<NonNull<[u8]>>);
    black_box(free as unsafe fn(&mut Heap, NonNull<u8>, Layout));
}
END
done
(cd "$work" && cargo build --quiet --release --offline)
text() { size "$work/target/release/$1" | awk 'NR == 2 { print $1 }'; }
nothing=$(text nothing)
for algorithm in $algorithms; do
    echo "${algorithm%=*} $(($(text "${algorithm#*=}") - nothing))"
done
