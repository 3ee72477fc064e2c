#!/usr/bin/env bash
# What each malloc library survives, as a Markdown table:
#
#     tests/survive/table.sh [NAME=LIBRARY …]
#
# The programs of tests/survive/programs run under glibc's allocator, libpagewise.so, mimalloc 2 and 3,
# jemalloc and tcmalloc, and under libraries that are given, say one of an earlier commit. Takes about
# a minute for each. mimalloc 3 needs a C compiler, the others Debian's libmimalloc2.0, libjemalloc2 and
# libtcmalloc-minimal4; what is missing is said and left out. SKIP=1 builds nothing.
# ROWS=NAME,NAME runs these programs only.
set -euo pipefail
cd "$(dirname "$0")/../.."

build() {
  [ "${SKIP-}" = 1 ] || cargo build --quiet --release --locked "$@"
}

build -p pagewise-preload
programs=tests/survive/programs
build --manifest-path $programs/Cargo.toml --target-dir $programs/target
libraries=("$@" "pagewise=${CARGO_TARGET_DIR-target}/release/libpagewise.so")

debian() {
  local path
  path=$(ldconfig -p | awk -v name="$3" '$1 == name { print $NF; exit }')
  if [ -z "$path" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get -qq install -y --no-install-recommends "$2" >/dev/null 2>&1 || true
    path=$(ldconfig -p | awk -v name="$3" '$1 == name { print $NF; exit }')
  fi
  if [ -n "$path" ]; then
    libraries+=("$1=$path")
  else
    echo "$1 is missing: Debian's package $2" >&2
  fi
}

debian 'mimalloc 2' libmimalloc2.0 libmimalloc.so.2
three=tests/survive/mimalloc3
if build --manifest-path $three/Cargo.toml --target-dir $three/target; then
  libraries+=("mimalloc 3=$PWD/$three/target/release/libmimalloc3.so")
else
  echo 'mimalloc 3 is missing: it could not be built' >&2
fi
debian jemalloc libjemalloc2 libjemalloc.so.2
debian tcmalloc libtcmalloc-minimal4 libtcmalloc_minimal.so.4

# A library is given to a program by its whole path.
for number in "${!libraries[@]}"; do
  library=${libraries[number]}
  libraries[number]="${library%%=*}=$(realpath "${library#*=}")"
done

versions=$(dpkg-query -W -f '${Package} ${Version}, ' libmimalloc2.0 libjemalloc2 libtcmalloc-minimal4 2>/dev/null || true)
three_version=$(grep -A1 '"libmimalloc-sys"' $three/Cargo.lock | sed -n 's/version = "\(.*\)"/\1/p')
cat <<END
$(date -u '+%-d %B %Y'), Linux $(uname -r | cut -d- -f1) $(uname -m), $(nproc) processors, $(getconf GNU_LIBC_VERSION), \
${versions}mimalloc 3 of libmimalloc-sys $three_version, pagewise $(git rev-parse --short HEAD).

END
exec $programs/target/release/survive table ${ROWS:+--programs "$ROWS"} "${libraries[@]}"
