#!/usr/bin/env bash
# Runs stress-ng's malloc, mmap, fork, pthread and vm stressors under libpagewise.so, for ten
# minutes or the given number of seconds:
#
#     tests/survive/stress.sh [SECONDS]
#
# Each stressor verifies what it wrote. The run fails if one does, if a process is lost, or if the
# allocator prints a message. Needs Debian's stress-ng. LIBRARY=path uses another library.
set -euo pipefail
root=$(realpath "$(dirname "$0")/../..")
if [ -z "${LIBRARY-}" ]; then
  (cd "$root" && cargo build --quiet --release --locked -p pagewise-preload)
  LIBRARY=${CARGO_TARGET_DIR-$root/target}/release/libpagewise.so
fi
log=$(mktemp)
folder=$(mktemp -d)
trap 'rm -rf "$log" "$folder"' EXIT
status=0
LD_PRELOAD=$(realpath "$LIBRARY") nice -n 10 stress-ng --temp-path "$folder" --timeout "${1-600}s" \
  --verify --metrics-brief --times \
  --malloc 2 --malloc-bytes 256M --malloc-pthreads 4 --mmap 1 --mmap-bytes 128M --fork 1 --pthread 1 \
  --vm 1 --vm-bytes 128M 2>&1 | tee "$log" || status=$?
if [ $status != 0 ] || grep -qE 'pagewise:|fail:|[1-9][0-9]* failed' "$log"; then
  echo "failed, status $status"
  exit 1
fi
echo 'nothing lost'
