#!/bin/sh
# Instructions per action within the allocators, and branches mispredicted, as callgrind counts and models
# them; without the bench's own, and without copying. Prints a table; needs valgrind.
#
#   benches/arenas/instructions.sh [NAME …]        pagewise and talc, unless others are named
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- pagewise talc
bench=${BENCH:-$(cargo bench --locked --no-run --bench arenas --message-format=json |
    sed -n 's/.*"name":"arenas".*"executable":"\([^"]*\)".*/\1/p')}
for option in "" --no-realloc; do
    for live in 300 1000 3000; do
        printf '%-24s' "$live live $option"
        printf '%14s' 200 1000 3000 10000 30000
        echo
        for name; do
            printf '%-24s' "$name"
            for max in 200 1000 3000 10000 30000; do
                valgrind --tool=callgrind --callgrind-out-file=/dev/null --branch-sim=yes \
                    --toggle-collect='*as arenas::peers::Heap>*' --toggle-collect='__mem*' \
                    "$bench" --only "$name" "$max" "$live" $option 2>&1 |
                    awk '/Collected/ { instructions = $4 } / actions/ { actions = $1 }
                         /Mispredicts/ { gsub(",", ""); missed = $3 }
                         END { printf "%14s", sprintf("%.1f / %.2f", instructions / actions, missed / actions) }'
            done
            echo
        done
    done
done
