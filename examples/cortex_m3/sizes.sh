#!/bin/sh
# Prints the flash and RAM that allocators take on a Cortex-M3, as a table: `allocate` and `free`
# only, without the region of 16 KiB, in bytes beyond the same program without an allocator. Needs
# the target thumbv7m-none-eabi and a `size` for it (binutils-arm-none-eabi, or LLVM's).
set -eu
cd "$(dirname "$0")"
size=$(command -v arm-none-eabi-size || command -v llvm-size)
measure() {
    cargo build --locked --quiet --release --bin size ${1:+--features $1}
    "$size" "${CARGO_TARGET_DIR:-target}/thumbv7m-none-eabi/release/size" |
        awk 'NR == 2 { print $1 + $2, $2 + $3 - 16384 }'
}
# `text` and `data` are in flash, `data` and `bss` in RAM.
set -- $(measure "")
flash=$1 ram=$2
echo '| allocator | flash | RAM |'
echo '|---|---:|---:|'
for name in pagewise pagewise-best-fit pagewise-arena linked_list_allocator llff rlsf tlsf talc buddy_system_allocator; do
    set -- $(measure "$name")
    echo "| $name | $(($1 - flash)) | $(($2 - ram)) |"
done
