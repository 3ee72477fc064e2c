#!/usr/bin/env bash
# Runs a program for wasm32-unknown-unknown in node, with each global allocator: it must give the
# same answers as on this machine, and find its allocator intact.
set -euo pipefail
cd "$(dirname "$0")"
seeds=20
expected=$(cargo run --quiet -- "$seeds")
for features in '' arena; do
  cargo build --quiet --lib --target wasm32-unknown-unknown --features "$features"
  program=${CARGO_TARGET_DIR-target}/wasm32-unknown-unknown/debug/wasm.wasm
  answers=$(node --no-concurrent-marking run.mjs "$program" "$seeds")
  [ "$answers" = "$expected" ] || { echo "other answers over ${features:-Pagewise}" >&2; exit 1; }
  echo "test result: ok. 1 passed; the same $seeds answers over ${features:-Pagewise}"
done
