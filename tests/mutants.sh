#!/usr/bin/env bash
# Mutation testing with cargo-mutants (`cargo install --locked cargo-mutants`): changes the code in
# one place at a time and runs the tests, which must fail.
#
#     tests/mutants.sh AREA [k/n]   every n-th mutant of an area, from the k-th on (0/1: all, takes days)
#     tests/mutants.sh again AREA   the survivors of the last run, against all tests of the area
#
# Areas: heaps (pages, fits and tags, arenas), global, trace. The first run uses a selection of
# tests that takes seconds. Results are in OUT/AREA/mutants.out; OUT is `target/mutants` unless set.
set -euo pipefail
cd "$(dirname "$0")/.."

again=
if [ "${1-}" = again ]; then
  again=yes
  shift
fi
area=${1-}
shard=${2-0/1}
case $area in
heaps)
  package=pagewise files=('src/pages/**' 'src/fit/**' 'src/tags/**' 'src/arena/**')
  few=(--lib --test arena --test properties)
  skip=(--skip nielsen:: --skip hasan:: --skip head-firsts:: --skip survives_exhaustion)
  all=(--lib --test arena --test misuse --test properties --test regressions --test theorem_6_1
    --test global)
  ;;
global)
  package=pagewise files=('src/global/**')
  few=(--test global)
  skip=(--skip pages_of_64_kib --skip memory_between_survivors)
  all=(--lib --test global --test hardened --test misuse --test regressions --test survive
    --test schedules)
  ;;
trace)
  package=pagewise-trace files=('trace/src/**')
  few=() skip=() all=()
  ;;
*)
  sed -n '2,10s/^# \?//p' "$0"
  exit 2
  ;;
esac

# Fast to build and to run; few cases of each property.
export CARGO_PROFILE_DEV_DEBUG=false CARGO_PROFILE_DEV_OPT_LEVEL=1
export PROPTEST_CASES=${PROPTEST_CASES-4}
out=${OUT-target/mutants}/$area
mkdir -p "$out"

arguments=(-p "$package" --jobs 1 --no-times --colors never --timeout "${TIMEOUT-120}")
for file in "${files[@]}"; do
  arguments+=(-f "$file")
done
if [ "$again" ]; then
  # The names of the survivors, as regular expressions.
  cp "$out/mutants.out/missed.txt" "$out/missed-before.txt"
  while read -r name; do
    arguments+=(--re "^$(sed 's/[][().*+?|{}^$\\]/\\&/g' <<<"$name")\$")
  done <"$out/missed-before.txt"
  out+=-again
  tests=("${all[@]}") skip=()
else
  arguments+=(--sharding round-robin --shard "$shard")
  tests=("${few[@]}")
fi
# Also build only those tests.
for test in "${tests[@]}"; do
  arguments+=(--cargo-arg="$test")
done
exec cargo mutants "${arguments[@]}" --baseline "${BASELINE-run}" --output "$out" -- -- "${skip[@]}"
