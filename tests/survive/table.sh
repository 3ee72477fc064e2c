#!/usr/bin/env bash
# Prints what each malloc library survives, as a Markdown table:
#
#     tests/survive/table.sh [NAME=LIBRARY …]
#
# The programs of tests/survive/programs run under glibc's allocator, libpagewise.so, mimalloc 2 and
# 3, jemalloc and tcmalloc, and under the given libraries, such as one of an earlier commit. Takes
# about a minute for each. mimalloc 3 needs a C compiler, the others Debian's libmimalloc2.0,
# libjemalloc2 and libtcmalloc-minimal4; missing libraries are reported and left out. SKIP=1 skips
# building. ROWS=NAME,NAME runs these programs only.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/peers.sh

programs=tests/survive/programs
build --manifest-path $programs/Cargo.toml --target-dir $programs/target
# Programs need the library's absolute path.
for library in "$@"; do
  libraries+=("${library%%=*}=$(realpath "${library#*=}")")
done
pagewise
debian 'mimalloc 2' libmimalloc2.0 libmimalloc.so.2
mimalloc3
debian jemalloc libjemalloc2 libjemalloc.so.2
debian tcmalloc libtcmalloc-minimal4 libtcmalloc_minimal.so.4

versions libmimalloc2.0 libjemalloc2 libtcmalloc-minimal4
echo
exec $programs/target/release/survive table ${ROWS:+--programs "$ROWS"} "${libraries[@]}"
