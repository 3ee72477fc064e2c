#!/usr/bin/env bash
# The same program under heaptrack and under `pagewise record --stacks`: what both take, and the ten call stacks with the
# most bytes at the peak, and never freed, side by side.
#
#   benches/heaptrack.sh gawk -f program.awk
#   LOAD='redis-benchmark -q -t set -n 20000; redis-cli shutdown nosave' benches/heaptrack.sh redis-server --save ''
#
# LOAD is run once the program has begun; the program ends by itself, or the load ends it. ROUNDS (3) runs of each take
# turns; the least CPU time counts, of the program and of what records and reads it. Needs heaptrack, and `pagewise` (in
# the PATH, or named by PAGEWISE).
set -euo pipefail
pagewise=${PAGEWISE-pagewise}
rounds=${ROUNDS-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

# Runs a command, with the load beside it, and appends its CPU seconds (user and system, of all children) to a file.
timed() {
  local times=$1
  shift
  if [ -n "${LOAD-}" ]; then
    (sleep "${BEGINS-2}" && eval "$LOAD") >"$work/load" 2>&1 &
  fi
  TIMEFORMAT='%U %S'
  { time "$@" >"$work/out" 2>"$work/err"; } 2>"$work/time" || true
  wait
  awk '{ print $1 + $2 }' "$work/time" >>"$work/$times"
}

for _ in $(seq "$rounds"); do
  timed alone "$@"
  rm -f "$work"/ht.*
  timed heaptrack heaptrack -o "$work/ht" "$@"
  timed stacks "$pagewise" record --stacks -o "$work/pw.pwt" -- "$@"
done
least() { sort -g "$work/$1" | awk 'NR == 1'; }
bytes() { stat -c %s "$@" | awk '{ sum += $1 } END { print sum }'; }

echo "| | CPU seconds | file, bytes |"
echo "|---|---:|---:|"
echo "| alone | $(least alone) | |"
echo "| heaptrack | $(least heaptrack) | $(bytes "$work"/ht.*) |"
echo "| pagewise record --stacks | $(least stacks) | $(bytes "$work/pw.pwt") |"

# The ten largest of folded stacks: bytes, and the innermost frames.
ten() {
  awk '{ bytes = $NF; sub(/;? [0-9]+$/, ""); n = split($0, frames, ";"); text = frames[n]
         for (i = n - 1; i > 0 && i > n - 3; i--) text = text " < " frames[i]
         print bytes "\t" text }' | sort -t "$(printf '\t')" -k1,1nr | awk 'NR <= 10'
}
for figure in peak leaked; do
  heaptrack_print "$work"/ht.* -a 0 -p 0 -T 0 --flamegraph-cost-type "$figure" -F "$work/folded" >/dev/null 2>&1
  ten <"$work/folded" >"$work/theirs"
  "$pagewise" who "$work/pw.pwt" --raw --folded --of "$([ "$figure" = peak ] && echo live || echo leaked)" |
    ten >"$work/ours"
  echo
  echo "| $figure | heaptrack, bytes | pagewise, bytes | heaptrack's stack, the innermost frame first | pagewise's |"
  echo "|---:|---:|---:|---|---|"
  paste "$work/theirs" "$work/ours" | awk -F '\t' '{ print "| " NR " | " $1 " | " $3 " | " $2 " | " $4 " |" }'
done
