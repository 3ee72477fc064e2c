#!/usr/bin/env bash
# Loads libpagewise.so for aarch64 into programs under qemu: it reaches a thread's lists through
# `tpidr_el0` and the global offset table. `tests/targets.sh aarch64` runs this after installing
# what it needs.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=${CC-aarch64-linux-gnu-gcc}
cargo build --release -p pagewise-preload --target "$target"
library=$PWD/${CARGO_TARGET_DIR-target}/$target/release/libpagewise.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The variable must use the initial-exec model: only its offset from the thread pointer is
# relocated.
aarch64-linux-gnu-readelf -Wr "$library" >"$work/relocations"
grep -q 'R_AARCH64_TLS_TPREL' "$work/relocations"

aarch64-linux-gnu-gcc -O1 -pthread -o "$work/threads" tests/preload_threads.c
emulated() {
  unshare -Urm "$PWD/tests/targets.sh" under-qemu aarch64 "$@"
}
emulated env LD_PRELOAD="$library" PAGEWISE_SHOW_STATS=1 "$work/threads" 2>"$work/statistics"
# The program's blocks came from this allocator.
grep -q 'pagewise: .* blocks in use' "$work/statistics"
awk '/KiB held at most/ { found = $2 > 4096 } END { exit !found }' "$work/statistics"
echo "test result: ok. 1 passed; threads in C under libpagewise.so"
