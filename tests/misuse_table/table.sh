#!/usr/bin/env bash
# Writes the table of outcomes, for each misuse under each malloc library, into docs/misuse.md; or
# prints it as JSON, with the libraries' messages:
#
#     tests/misuse_table/table.sh [--json]
#
# The programs of tests/misuse_table/programs run under glibc's allocator, libpagewise.so by default
# and hardened, mimalloc 3 and rusty_alloc by default and secure, jemalloc and scudo. Each runs ten
# times, and the worst outcome counts. Takes about four minutes. mimalloc needs a C compiler, the
# others Debian's libjemalloc2 and libclang-rt-19-dev; missing libraries are reported and left out.
# SKIP=1 skips building.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/peers.sh

here=tests/misuse_table
build --manifest-path $here/programs/Cargo.toml --target-dir $here/programs/target
misuse=$here/programs/target/release/misuse

pagewise
libraries+=("hardened=${libraries[0]#*=},PAGEWISE_HARDENED=1" glibc=)
mimalloc3
mimalloc3 secure
debian jemalloc libjemalloc2 libjemalloc.so.2
scudo
rusty=(rusty_alloc $here/rusty_alloc librusty_alloc_preload.so)
package "${rusty[@]}"
package 'rusty_alloc secure' "${rusty[@]:1}" secure

if [ "${1-}" = --json ]; then
  exec $misuse table --json --times 10 "${libraries[@]}"
fi
scudo_package=$(dpkg -S "$(scudo_path)" 2>/dev/null | cut -d: -f1)
table=$(mktemp)
trap 'rm -f "$table"' EXIT
{
  echo "$(versions libjemalloc2 $scudo_package), rusty_alloc $(sed -n 's/^rusty_alloc = "=\(.*\)"/\1/p' $here/rusty_alloc/Cargo.toml):"
  echo
  $misuse table --times 10 "${libraries[@]}"
} | tee "$table"
awk -v table="$table" '
  /^<!-- end of the table -->/ { inside = 0 }
  !inside { print }
  /^<!-- the table/ { inside = 1; while ((getline line < table) > 0) print line }
' docs/misuse.md > "$table.new"
mv "$table.new" docs/misuse.md
