#!/usr/bin/env bash
# Tests libpagewise_record.so for aarch64, which unwinds call stacks by frame pointers: this
# machine's `pagewise` records a program under qemu, reads the log, and finds the functions in the
# program's file. `tests/targets.sh aarch64` runs this after installing what it needs.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=${CC-aarch64-linux-gnu-gcc}
folder=$PWD/${CARGO_TARGET_DIR-target}
# As `lab/build.rs` builds it.
RUSTFLAGS=-Cforce-frame-pointers=yes cargo build --profile recorder -p pagewise-record --target "$target"
# As the lab's own tests build it.
env -u CARGO_PROFILE_DEV_DEBUG -u CARGO_INCREMENTAL cargo build -p pagewise-lab
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# As other programs are built: without asking for frame pointers.
rustc --edition 2024 --target "$target" -C linker="$CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER" -O \
  -o "$work/stacks" tests/recorder/stacks.rs
# This machine's recorder is loaded into what starts the program, the other one into the program.
"$folder/debug/pagewise" record --stacks=256 --program stacks -o "$work/stacks.pwt" -- \
  unshare -Urm "$PWD/tests/targets.sh" under-qemu aarch64 \
  env LD_PRELOAD="$folder/$target/recorder/libpagewise_record.so" "$work/stacks"

"$folder/debug/pagewise" who "$work/stacks.pwt" --folded --of leaked >"$work/leaked"
# Checks that a single stack from `main` down has this many bytes, with these calls.
has() {
  grep -Eq "$1" "$work/leaked" || {
    echo "no stack is '$1':"
    cat "$work/leaked"
    exit 1
  }
}
has '^_start;.*;stacks::main;stacks::leaky(;.*)? 300000$'
has '::thread_start;.*;stacks::in_a_thread(;.*)? 155400$'
has '^_start;.*;stacks::main(;stacks::deep){101}(;.*)? 2222$'
echo "test result: ok. 1 passed; call stacks of a recorded program"
