# The malloc libraries that tables compare, for scripts that source this file from the repository's
# root: each function appends NAME=LIBRARY to `libraries`, or reports what is missing. SKIP=1 skips
# building.
libraries=()

# build ARGUMENT…: makes a release build.
build() {
  [ "${SKIP-}" = 1 ] || cargo build --quiet --release --locked "$@"
}

# package NAME FOLDER FILE [FEATURE]: a package of ours that builds a preloadable library.
package() {
  local target=$2/target${4:+/$4}
  if build --manifest-path "$2/Cargo.toml" --target-dir "$target" ${4:+--features "$4"}; then
    libraries+=("$1=$PWD/$target/release/$3")
  else
    echo "$1 is missing: it could not be built" >&2
  fi
}

pagewise() {
  build -p pagewise-preload
  libraries+=("pagewise=$(realpath "${CARGO_TARGET_DIR-target}/release/libpagewise.so")")
}

# Needs a C compiler. The argument `secure` builds with that feature.
mimalloc3() {
  package "mimalloc 3${1:+ $1}" tests/survive/mimalloc3 libmimalloc3.so "${1-}"
}

# installed NAME PACKAGE COMMAND…: a library from Debian's PACKAGE; the command prints its path.
installed() {
  local name=$1 package=$2 path
  shift 2
  # The command may fail if the library is missing.
  path=$("$@") || true
  if [ -z "$path" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get -qq install -y --no-install-recommends "$package" >/dev/null 2>&1 || true
    path=$("$@") || true
  fi
  if [ -n "$path" ]; then
    libraries+=("$name=$(realpath "$path")")
  else
    echo "$name is missing: Debian's package $package" >&2
  fi
}

# Prints the path of a library that the loader finds.
loadable() {
  ldconfig -p | awk -v name="$1" '$1 == name && !found++ { print $NF }'
}

debian() {
  installed "$1" "$2" loadable "$3"
}

# The newest one: Debian has several.
scudo_path() {
  find /usr/lib/llvm-*/lib/clang/*/lib/linux -name "libclang_rt.scudo_standalone-$(uname -m).so" 2>/dev/null |
    sort -V | tail -1
}

scudo() {
  installed scudo libclang-rt-19-dev scudo_path
}

# versions PACKAGE…: prints a line on the machine and the compared versions.
versions() {
  local debian three
  debian=$(dpkg-query -W -f '${Package} ${Version}, ' "$@" 2>/dev/null || true)
  three=$(grep -A1 '"libmimalloc-sys"' tests/survive/mimalloc3/Cargo.lock | sed -n 's/version = "\(.*\)"/\1/p')
  echo "$(date -u '+%-d %B %Y'), Linux $(uname -r | cut -d- -f1) $(uname -m), $(nproc) processors," \
    "$(getconf GNU_LIBC_VERSION), ${debian}mimalloc 3 of libmimalloc-sys $three, pagewise $(git rev-parse --short HEAD)"
}
