#!/usr/bin/env bash
# Compares the same program under heaptrack and under `pagewise record --stacks`: what both cost,
# and, side by side, the ten call stacks with the most bytes at the peak, and never freed.
#
#   benches/heaptrack.sh gawk -f program.awk
#   LOAD='redis-benchmark -q -t set -n 20000; redis-cli shutdown nosave' benches/heaptrack.sh redis-server --save ''
#
# LOAD is run after the program has started; the program ends by itself, or the load ends it. ROUNDS
# (3) runs of each alternate; the least CPU time counts, of the program and of the recording and
# reading tools. All runs have equally many environment variables, because gawk, for one, has an
# array of them among its other values. Needs heaptrack, gawk, and `pagewise` (in the PATH, or named
# by PAGEWISE).
#
# A row is a stack, given by the names of its functions; calls from several lines of one function
# are one row. Heaptrack's own library loads the C++ library, which takes 72,704 bytes.
set -euo pipefail
pagewise=${PAGEWISE-pagewise}
rounds=${ROUNDS-3}
for needed in heaptrack gawk "$pagewise"; do
  command -v "$needed" >/dev/null || { echo "$0: there is no $needed" >&2; exit 1; }
done
[ $# -gt 0 ] || { echo "usage: $0 PROGRAM [ARGUMENT]..." >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

# Runs a command, with the load beside it, and appends its CPU seconds (user and system, with all
# children) to a file.
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

# Variables that only one of the two sets; the other one, and the program alone, get equally many
# others.
count='BEGIN { print length(ENVIRON) >file }'
gawk -v file="$work/here" "$count"
heaptrack -o "$work/env" gawk -v file="$work/theirs" "$count" >"$work/out" 2>&1
"$pagewise" record --stacks -o "$work/env.pwt" -- gawk -v file="$work/ours" "$count" >"$work/out" 2>&1
here=$(<"$work/here") theirs=$(<"$work/theirs") ours=$(<"$work/ours")
most=$((theirs > ours ? theirs : ours))
fill() {
  for ((more = $1; more < most; more++)); do printf 'FILL_%d=1\n' "$more"; done
}

for _ in $(seq "$rounds"); do
  timed alone env $(fill "$here") "$@"
  rm -f "$work"/ht.*
  timed heaptrack env $(fill "$theirs") heaptrack -o "$work/ht" "$@"
  timed stacks env $(fill "$ours") "$pagewise" record --stacks -o "$work/pw.pwt" -- "$@"
done
least() { sort -g "$work/$1" | awk 'NR == 1'; }
bytes() { stat -c %s "$@" | awk '{ sum += $1 } END { print sum }'; }

alone=$(least alone)
added() { awk -v alone="$alone" -v one="$(least "$1")" -v two="$(least "$2")" 'BEGIN { printf "%.2f", (one - alone) / (two - alone) }'; }
echo "| | CPU seconds | file, bytes |"
echo "|---|---:|---:|"
echo "| alone | $alone | |"
echo "| heaptrack | $(least heaptrack) | $(bytes "$work"/ht.*) |"
echo "| pagewise record --stacks | $(least stacks) | $(bytes "$work/pw.pwt") |"
echo
echo "What \`record --stacks\` adds is $(added stacks heaptrack) of what heaptrack adds."

# Normalises folded stacks to function names, from `main` on. A line has the bytes, the names in
# alphabetical order, by which stacks are matched, and the names as they stand. `heaptrack_print` has
# nothing before `main`, inlined functions in another order, file names after functions, symbols for
# functions of Rust's own library where `who` has paths, and call addresses where `who` has the return
# address and its file.
named() {
  gawk '{ bytes = $NF; sub(/;? [0-9]+$/, ""); n = split($0, frames, ";"); count = 0; text = ""; delete names
          for (i = 1; i <= n; i++) {
            frame = frames[i]
            if (frame ~ /^[^ ]+\+0x[0-9a-f]+$/) {
              sub(/.*\+/, "", frame)
              frame = sprintf("0x%x", strtonum(frame) - 1)
            }
            sub(/[<( ].*/, "", frame)
            # Load addresses of files differ by whole pages.
            if (frame ~ /^0x[0-9a-f]{4,}$/) frame = "0x…" substr(frame, length(frame) - 2)
            if (frame == "" || frame ~ /^(\[|_R)|::/) continue
            if (frame == "main") { count = 0; text = ""; delete names }
            names[++count] = frame
            text = frame " < " text
          }
          asort(names)
          key = ""
          for (i = 1; i <= count; i++) key = key ";" names[i]
          sums[key] += bytes
          texts[key] = text }
        END { for (key in sums) print sums[key] "\t" key "\t" texts[key] }' | sort -t "$(printf '\t')" -k1,1nr -k2
}
for figure in peak leaked; do
  heaptrack_print "$work"/ht.* -a 0 -p 0 -T 0 --flamegraph-cost-type "$figure" -F "$work/folded" >/dev/null 2>&1
  named <"$work/folded" >"$work/theirs"
  "$pagewise" who "$work/pw.pwt" --raw --folded --of "$([ "$figure" = peak ] && echo live || echo leaked)" |
    named >"$work/ours"
  echo
  echo "| $figure | heaptrack, bytes | its rank | pagewise, bytes | stack, the innermost function first |"
  echo "|---:|---:|---:|---:|---|"
  # Our ten largest stacks, each beside theirs.
  awk -F '\t' 'NR == FNR { bytes[$2] = $1; rank[$2] = FNR; next }
               FNR <= 10 { n = split($3, frames, " < "); text = ""; shown = 0
                           for (i = 1; i <= n && shown < 4; i++)
                             if (frames[i] !~ /^(do_alloc|r?e?alloc|c?m?alloc|allocate|alloc_impl.*|try_.*|with_.*|grow.*|finish_grow|box_new.*|new_uninit.*)$/) {
                               text = text (shown++ ? " < " : "") frames[i]
                             }
                           theirs = $2 in bytes ? bytes[$2] : "–"; at = $2 in rank ? rank[$2] : "–"
                           print "| " FNR " | " theirs " | " at " | " $1 " | " text " |" }' "$work/theirs" "$work/ours"
done
