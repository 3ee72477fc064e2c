#!/usr/bin/env bash
# The library's tests on other targets, run on x86-64 Linux by hand:
#
#     tests/targets.sh i686        addresses of 32 bits, musl
#     tests/targets.sh aarch64     under qemu, which finds what is wrong on that architecture but not
#                                  what its weaker order of memory might do: x86-64 orders it
#     tests/targets.sh windows     x86-64, GNU's tools, under wine: the global allocator's tests and the arenas'.
#                                  wine is no Windows: what takes memory there, and how long calls take, it
#                                  does not tell
#     tests/targets.sh cortex_m3   firmware for a microcontroller whose allocator is an arena, run by QEMU
#     tests/targets.sh wasm32      an arena as a program's global allocator, interpreted
#     tests/targets.sh minimal     with the lowest versions of other crates that the manifests admit
#     tests/targets.sh check       compiles what no machine here runs: 32 bits without 64-bit atomics,
#                                  with std (PowerPC) and without (RISC-V, Cortex-M); other Windows
#     tests/targets.sh miri        interpreted, which finds data races, broken aliasing and pointers
#                                  without a right to what they reach: tags, fits, page heap, arenas,
#                                  and the global allocator under several schedules of its threads,
#                                  with both models of borrows; half an hour of processor time or
#                                  more; installs nightly where it lacks
#
# Needed: `rustup target add` of the targets named below, gcc, and for aarch64 Debian's
# gcc-aarch64-linux-gnu and qemu-user-static, or others by CC, QEMU and SYSROOT; for windows gcc-mingw-w64-x86-64
# and wine64.
set -euo pipefail
cd "$(dirname "$0")/.."

all=(--lib --test arena --test arena_collections --test arena_global --test bundled_traces
  --test examples --test global --test misuse --test properties --test theorem_6_1)

on() {
  target=$1
  shift
  cargo test --target "$target" -p pagewise --features trace,allocator-api2,lock_api "${all[@]}" -- "$@"
  cargo test --target "$target" -p pagewise-trace -- "$@"
}

case ${1-} in
i686)
  export CARGO_TARGET_I686_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
  # A C file among the dependencies of the benchmarks needs no C library.
  export CC_i686_unknown_linux_musl=${CC-gcc} CFLAGS_i686_unknown_linux_musl='-m32 -ffreestanding'
  on i686-unknown-linux-musl
  ;;
aarch64)
  CC=${CC-aarch64-linux-gnu-gcc}
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$CC CC_aarch64_unknown_linux_gnu=$CC
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="unshare -Urm $PWD/tests/targets.sh under-qemu"
  export PROPTEST_CASES=${PROPTEST_CASES-8}
  # qemu is part of the process: its own memory is resident, too, and 280 KiB more with each thread
  # that ever was; it sets no RLIMIT_AS.
  on aarch64-unknown-linux-gnu --skip memory:: --skip limits:: --skip thousands_of_short_threads
  ;;
under-qemu)
  # The kernel is to start what tests start under qemu, too, in this name space of its own.
  mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
  magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
  mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
  qemu=${QEMU-/usr/bin/qemu-aarch64-static}
  printf ':aarch64:M::%s:%s:%s:F' "$magic" "$mask" "$qemu" >/proc/sys/fs/binfmt_misc/register
  export QEMU_LD_PREFIX=${SYSROOT-/usr/aarch64-linux-gnu}
  # qemu 7 takes memory for each page that is reserved: 4 TiB are too many.
  ulimit -v 24000000
  shift
  exec "$@"
  ;;
windows)
  export WINEPREFIX=$PWD/target/wine WINEDEBUG=-all CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine
  system=$WINEPREFIX/drive_c/windows/system32
  [ -d "$system" ] || wine wineboot --init
  [ -e "$system/bcryptprimitives.dll" ] ||
    x86_64-w64-mingw32-gcc -shared -o "$system/bcryptprimitives.dll" tests/windows/bcryptprimitives.c -ladvapi32
  # A process that touches what it must not ends as it does on Windows, and waits for no debugger.
  wine reg add 'HKLM\Software\Microsoft\Windows NT\CurrentVersion\AeDebug' /v Debugger /d none /f >/dev/null
  export PROPTEST_CASES=${PROPTEST_CASES-8}
  cargo test --target x86_64-pc-windows-gnu -p pagewise --features trace,allocator-api2,lock_api \
    --lib --test arena --test arena_collections --test arena_global --test examples --test global \
    --test hardened --test misuse --test small --test theorem_6_1 "${@:2}"
  ;;
cortex_m3)
  cd examples/cortex_m3
  cargo run --locked --release --features pagewise
  ;;
wasm32)
  cd tests/wasm
  cargo build --lib --target wasm32-unknown-unknown
  cargo run -- "${CARGO_TARGET_DIR-target}/wasm32-unknown-unknown/debug/wasm.wasm"
  ;;
miri)
  cargo +nightly miri --version >/dev/null 2>&1 ||
    rustup toolchain install nightly --profile minimal --component miri --component rust-src
  miri() {
    cargo +nightly miri test -p pagewise "$@"
  }
  for borrows in ${BORROWS-stacked tree}; do
    export MIRIFLAGS=-Zmiri-strict-provenance
    [ "$borrows" = stacked ] || MIRIFLAGS+=" -Zmiri-$borrows-borrows"
    miri --lib -- words:: tags:: pages:: fit::tests
    # Miri of May 2026 stops on itself where heaps in which words are written atomically, at whatever place,
    # have outdated values emulated (rust-lang/miri#5185 is alike). Whatever is read there is read under a lock.
    MIRIFLAGS+=" -Zmiri-disable-weak-memory-emulation" miri --test arena
    for strategy in default::PAGEWISE:: fits::BEST-FIT:: fits::SEGREGATED-FIT::; do
      miri --test properties -- "$strategy"
    done
    MIRIFLAGS+=" -Zmiri-many-seeds=0..${SEEDS-16}"
    miri --test schedules
  done
  ;;
minimal)
  # A copy of the library and of traces, whose requirements stand for one version each: "2" is 2.0.0. It
  # has no tests of its own, since what they need asks for later versions.
  copy=$(mktemp -d)
  trap 'rm -rf "$copy"' EXIT
  mkdir "$copy/trace"
  cp -r Cargo.toml src README.md docs "$copy"
  cp -r trace/Cargo.toml trace/src trace/README.md "$copy/trace"
  cd "$copy"
  for manifest in Cargo.toml trace/Cargo.toml; do
    awk '/^members =/ { print "members = [\".\", \"trace\"]"; next }
      /^(default-members|exclude) =/ { next }
      /^\[/ { skipped = /^\[\[/ || /^\[dev-dependencies\]/; outside = /dependencies\]/ }
      skipped { next }
      outside && !/path =/ {
        while (match($0, /"[0-9]+(\.[0-9]+)?"/))
          $0 = substr($0, 1, RSTART + RLENGTH - 2) ".0" substr($0, RSTART + RLENGTH - 1)
        sub(/"[0-9]/, "\"=&"); sub(/"="/, "\"=")
      }
      { print }' "$manifest" >"$manifest.lowest"
    mv "$manifest.lowest" "$manifest"
  done
  features=pagewise/strategies,pagewise/trace,pagewise/allocator-api2,pagewise/lock_api
  cargo check --workspace --features "$features"
  cargo test -p pagewise-trace --lib
  ;;
check)
  cargo check -p pagewise --features trace --target powerpc-unknown-linux-gnu
  for target in i686-pc-windows-gnu x86_64-pc-windows-msvc aarch64-pc-windows-msvc; do
    cargo check -p pagewise --features strategies,guarded --target "$target"
  done
  for target in riscv32imac-unknown-none-elf thumbv7em-none-eabihf; do
    cargo check -p pagewise --no-default-features --target "$target"
  done
  ;;
*)
  sed -n '2,23s/^# \?//p' "$0"
  exit 2
  ;;
esac
