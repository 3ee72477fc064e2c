#!/usr/bin/env bash
# Tests the library on other targets, on an x86-64 Linux machine:
#
#     tests/targets.sh list        lists the targets: name, how each is run, what is run there
#     tests/targets.sh NAME…       runs these; installs what they need from Debian (as root) and rustup
#     tests/targets.sh all         runs the whole list in order, whatever fails; then prints a table.
#                                  Takes hours
#     tests/targets.sh ci          like `all`, but only as much as continuous integration has time
#                                  for: some targets are compiled only
#     tests/targets.sh minimal     uses the lowest versions of other crates, and of Rust, that the
#                                  manifests allow; with no warning from that Rust
#     tests/targets.sh miri        runs in Miri, which finds data races, aliasing violations and pointers
#                                  without provenance: tags, fits, page heap, Nielsen's lists, hybrid,
#                                  head-first and small heaps, arenas, the recorder, and the global
#                                  allocator under several schedules of its threads, with both
#                                  aliasing models. Takes more than an hour of processor time;
#                                  installs nightly, or the one that NIGHTLY names, if it is missing
#
# Exits with 1 if something failed; with 75 if a tool that it needs is missing and cannot be
# installed. Emulators are slow, so PROPTEST_CASES is 8 there unless it is set.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never
# For a dozen targets, builds without these take half the space and two thirds of the time.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0

# name | how | what. docs/platforms.md repeats the list, and adds what it does not show; a test
# compares them.
list() {
  cat <<'END'
musl|natively|the library: all tests but those of other programs; traces
portable|natively, with `--cfg pagewise_portable_os`|the global allocator over what macOS and FreeBSD have: unit tests, its tests, hardened mode
i686|natively, musl|the library: all tests but those of other programs; traces
aarch64|qemu-user|the library: all tests but those of other programs; traces; programs under libpagewise.so, and recorded with stacks
riscv64|qemu-user|the library: unit tests, properties, arenas, misuse; traces
s390x|qemu-user|the library: unit tests, properties, arenas, misuse; traces
windows|wine|the library: unit tests, the global allocator, hardened mode, guarded blocks, arenas, misuse, examples
cortex_m3|qemu-system-arm|firmware whose global allocator is a `StaticArena`, with memory that runs out and comes back
wasm32|node|programs whose global allocator is `Pagewise`, or an arena
wasip1|node|the library: unit tests, over `Pagewise`; properties, arenas, misuse; traces
check|compiled only|macOS, FreeBSD with their tests; Windows with MSVC; 32 bits without 64-bit atomics; without `std`
END
}

# Ends this target as not runnable.
skip() {
  echo "skipped: $*"
  exit 75
}

# Installs Debian packages that are missing.
debian() {
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' && continue
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || skip "$package is not installed"
    apt-get -qq update >/dev/null &&
      DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$package" >/dev/null ||
      skip "$package cannot be installed"
  done
}

rust() {
  rustup target add "$@" >/dev/null 2>&1 || skip "rustup has no $*"
}

features=trace,allocator-api2,lock_api
# Tests that need only the library and the test program.
tests=(--lib --test arena --test arena_collections --test arena_global --test bundled_traces
  --test catalogue --test examples --test global --test misuse --test properties --test small --test theorem_6_1)

# Tests to skip, because the target cannot pass them: of the library, and of traces.
without=()
without_traces=()

# Runs the tests of the library and of traces on a target: `on TARGET [CARGO ARGUMENTS] -- [TEST
# ARGUMENTS]`.
on() {
  target=$1
  shift
  failed=0
  cargo test --no-fail-fast --target "$target" -p pagewise --features "$features" "$@" || failed=1
  cargo test --no-fail-fast --target "$target" -p pagewise-trace -- "${without_traces[@]}" || failed=1
  return $failed
}

# Prepares and runs the tests under qemu: `emulate TARGET ARCHITECTURE`.
emulate() {
  debian qemu-user-static "gcc-$2-linux-gnu" "libc6-dev-${3-$2}-cross"
  rust "$1"
  gcc=$2-linux-gnu-gcc
  variable=${1//-/_}
  export "CC_$variable=${CC-$gcc}"
  variable=${variable^^}
  export "CARGO_TARGET_${variable}_LINKER=${CC-$gcc}"
  export "CARGO_TARGET_${variable}_RUNNER=unshare -Urm $PWD/tests/targets.sh under-qemu $2"
  export PROPTEST_CASES=${PROPTEST_CASES-8}
  # qemu 7 ignores all advice on memory but MADV_DONTNEED, so a mapping is not split, locked pages
  # stay, and a child of fork continues its parent's log. Its mremap differs from the kernel's. It
  # has no seccomp, adds a line to the reports of processes that stop, and ends itself at a limit of
  # file sizes. Its addresses are limited below.
  without=(--skip a_block_that_grows_does_not_move_to_where_heaps_lie
    --skip a_longer_block_begins_with_what_is_kept --skip a_longer_block_is_put_together_of_several_runs
    --skip runs_stay_where_nothing_can_be_put_together --skip what_is_kept_goes_back_for_want_of_memory
    --skip a_mapping_that_cannot_move_stays_where_it_was --skip a_reservation_with_a_gap_is_not_whole
    --skip resident_runs_go_back --skip bookkeeping_memory_is_set_aside_for_the_extent
    --skip a_report_names_the_class_of_a_small_block
    --skip medium_blocks_are_given_back_without_membarrier)
  without_traces=(--skip children_of_fork_have_logs_of_their_own
    --skip a_log_that_cannot_be_created_leaves_the_reason)
}

portable() {
  export RUSTFLAGS='--cfg pagewise_portable_os' CARGO_TARGET_DIR=${CARGO_TARGET_DIR-target}/portable
}

run() {
  case $1 in
  musl)
    rust x86_64-unknown-linux-musl
    export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
    # A C file among the benchmarks' dependencies needs no C library.
    export CC_x86_64_unknown_linux_musl=${CC-gcc}
    features+=,guarded
    on x86_64-unknown-linux-musl "${tests[@]}" --test guarded --test hardened --test regressions --test survive
    # A program with this lock must bring the critical section; these tests do.
    cargo test --target x86_64-unknown-linux-musl -p pagewise --features critical-section \
      --test arena --test regressions critical
    ;;
  portable)
    portable
    cargo test --no-fail-fast -p pagewise --features "$features" --lib --test global --test hardened
    ;;
  i686)
    rust i686-unknown-linux-musl
    export CARGO_TARGET_I686_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
    export CC_i686_unknown_linux_musl=${CC-gcc} CFLAGS_i686_unknown_linux_musl='-m32 -ffreestanding'
    cargo clippy --target i686-unknown-linux-musl -p pagewise --all-targets --features "$features,strategies,guarded,profiler" -- -D warnings
    features+=,guarded
    on i686-unknown-linux-musl "${tests[@]}" --test guarded --test hardened
    ;;
  aarch64)
    # On x86-64, qemu finds faults specific to that architecture, but not those of its weaker memory
    # order.
    emulate aarch64-unknown-linux-gnu aarch64 arm64
    on aarch64-unknown-linux-gnu "${tests[@]}" -- "${without[@]}"
    tests/preload_aarch64.sh
    tests/recorder_aarch64.sh
    ;;
  riscv64)
    emulate riscv64gc-unknown-linux-gnu riscv64
    on riscv64gc-unknown-linux-gnu --lib --test catalogue --test properties --test arena --test misuse -- "${without[@]}"
    ;;
  s390x)
    emulate s390x-unknown-linux-gnu s390x
    on s390x-unknown-linux-gnu --lib --test catalogue --test properties --test arena --test misuse -- "${without[@]}"
    ;;
  windows)
    export WINEPREFIX=$PWD/target/wine WINEDEBUG=-all CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine
    debian gcc-mingw-w64-x86-64 wine wine64
    rust x86_64-pc-windows-gnu
    tests/windows/prefix.sh "$WINEPREFIX"
    export PROPTEST_CASES=${PROPTEST_CASES-8}
    # wine is not Windows: it does not show what takes memory there, or how long calls take.
    cargo test --no-fail-fast --target x86_64-pc-windows-gnu -p pagewise --features "$features,guarded" \
      --lib --test arena --test arena_collections --test arena_global --test catalogue --test examples \
      --test global --test guarded --test hardened --test misuse --test small --test theorem_6_1 "${@:2}"
    ;;
  cortex_m3)
    debian qemu-system-arm
    rust thumbv7m-none-eabi
    cd examples/cortex_m3
    cargo run --locked --release --features pagewise
    echo 'test result: ok. 1 passed; what the firmware asks of its arena'
    ;;
  wasm32)
    node_is_there
    rust wasm32-unknown-unknown
    tests/wasm/run.sh
    ;;
  wasip1)
    node_is_there
    [[ $(node --version) =~ ^v([0-9]+) && ${BASH_REMATCH[1]} -ge 20 ]] || skip 'node is older than 20'
    rust wasm32-wasip1
    # V8 of node 20 sometimes crashes when it collects young objects, or marks bit by bit or on other
    # threads, while memory grows. So every collection is a full one, at once, on one thread.
    export CARGO_TARGET_WASM32_WASIP1_RUNNER="node --no-warnings --gc-global --no-concurrent-marking --no-incremental-marking $PWD/tests/wasm/wasi.mjs"
    export PROPTEST_CASES=${PROPTEST_CASES-8}
    # WASI has no folder for temporary files.
    without_traces=(--skip each_start_has_a_new_odd_number --skip written_returns_the_bytes_so_far
      --skip is_asked_to_stop_once --skip only_a_log_is_asked_to_stop
      --skip claims_more_events_than_the_file_can_hold --skip bytes_written_are_in_the_file)
    on wasm32-wasip1 --lib --test catalogue --test properties --test misuse --test theorem_6_1 -- --test-threads 1
    # Tests that need no thread and catch no panic.
    cargo test --target wasm32-wasip1 -p pagewise --features "$features" --test arena --test arena_collections -- \
      --test-threads 1 --skip visitor --skip thread --skip mutex
    ;;
  check)
    rust x86_64-apple-darwin aarch64-apple-darwin x86_64-unknown-freebsd powerpc-unknown-linux-gnu \
      i686-pc-windows-gnu x86_64-pc-windows-msvc aarch64-pc-windows-msvc riscv32imac-unknown-none-elf \
      thumbv7em-none-eabihf
    for target in x86_64-apple-darwin aarch64-apple-darwin x86_64-unknown-freebsd; do
      # A C file among the benchmarks' dependencies is compiled as for this machine, and linked into
      # nothing.
      CRATE_CC_NO_DEFAULTS=1 cargo check -p pagewise --tests --target "$target" \
        --features "$features,strategies,guarded,critical-section,initial-exec"
      # One feature needs a nightly compiler; this setting lets the stable one serve. The tests'
      # dependencies do not compile with it.
      RUSTC_BOOTSTRAP=1 cargo check -p pagewise --all-features --target "$target"
    done
    cargo check -p pagewise --features trace --target powerpc-unknown-linux-gnu
    for target in i686-pc-windows-gnu x86_64-pc-windows-msvc aarch64-pc-windows-msvc; do
      cargo check -p pagewise --features strategies,guarded --target "$target"
    done
    for target in riscv32imac-unknown-none-elf thumbv7em-none-eabihf; do
      cargo check -p pagewise --no-default-features --target "$target"
    done
    ;;
  minimal)
    minimal
    ;;
  miri)
    miri
    ;;
  *)
    sed -n '2,21s/^# \?//p' "$0"
    exit 2
    ;;
  esac
}

# What continuous integration runs of a target, where that is less than all: where unit tests would
# have to be compiled again, which takes two minutes each, only the library is.
run_in_ci() {
  case $1 in
  musl) compile x86_64-unknown-linux-musl ;;
  windows) compile x86_64-pc-windows-gnu ;;
  wasip1) compile wasm32-wasip1 ;;
  *) run "$1" ;;
  esac
}

compile() {
  rust "$1"
  cargo check --target "$1" -p pagewise --features "$features"
}

node_is_there() {
  command -v node >/dev/null || debian nodejs
}

# Runs a command under qemu in its own namespace, where the kernel also starts its child processes
# under qemu.
under_qemu() {
  any='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff'
  zeros='\x00\x00\x00\x00\x00\x00\x00\x00\x00'
  case $1 in
  aarch64) magic="\\x7fELF\\x02\\x01\\x01$zeros\\x02\\x00\\xb7\\x00" mask="$any\\xfe\\xff\\xff\\xff" ;;
  riscv64) magic="\\x7fELF\\x02\\x01\\x01$zeros\\x02\\x00\\xf3\\x00" mask="$any\\xfe\\xff\\xff\\xff" ;;
  s390x) magic="\\x7fELF\\x02\\x02\\x01$zeros\\x00\\x02\\x00\\x16" mask="$any\\xff\\xfe\\xff\\xff" ;;
  esac
  mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
  qemu=${QEMU-/usr/bin/qemu-$1-static}
  printf ':%s:M::%s:%s:%s:F' "$1" "$magic" "$mask" "$qemu" >/proc/sys/fs/binfmt_misc/register
  export QEMU_LD_PREFIX=${SYSROOT-/usr/$1-linux-gnu} EMULATED=qemu
  # qemu 7 needs memory for each reserved page: 4 TiB are too many.
  ulimit -v 24000000
  shift
  exec "$@"
}

miri() {
  nightly=${NIGHTLY-nightly}
  cargo "+$nightly" miri --version >/dev/null 2>&1 ||
    rustup toolchain install "$nightly" --profile minimal --component miri --component rust-src
  interpret() {
    cargo "+$nightly" miri test -p pagewise "$@"
  }
  # Miri of May 2026 crashes when it emulates outdated values in heaps in which words are written
  # atomically, at whatever place (similar to rust-lang/miri#5185); that of October does not.
  no_outdated=
  [[ $(cargo "+$nightly" miri --version) =~ 20..-..-.. && ${BASH_REMATCH[0]} > 2026-10 ]] ||
    no_outdated=' -Zmiri-disable-weak-memory-emulation'
  for borrows in ${BORROWS-stacked tree}; do
    export MIRIFLAGS=-Zmiri-strict-provenance
    [ "$borrows" = stacked ] || MIRIFLAGS+=" -Zmiri-$borrows-borrows"
    interpret --lib -- words:: tags:: pages:: fit::tests small:: nielsen:: hybrid:: head_first::
    interpret --test small
    cargo "+$nightly" miri test -p pagewise-trace --lib -- recorder raw::stacks
    MIRIFLAGS+=$no_outdated interpret --test arena
    # 32 bits where, other than on i686, words of 64 bits are aligned to 8 bytes.
    interpret --target armv7-unknown-linux-gnueabihf --test properties -- default::PAGEWISE::
    for strategy in default::PAGEWISE:: fits::BEST-FIT:: fits::SEGREGATED-FIT::; do
      interpret --test properties -- "$strategy"
    done
    MIRIFLAGS+="$no_outdated -Zmiri-many-seeds=0..${SEEDS-16}"
    interpret --test schedules
  done
}

# Copies the library and traces, with each requirement pinned to its lowest version: "2" is 2.0.0.
# The copy has no tests of its own, since their dependencies need later versions.
minimal() {
  copy=$(mktemp -d)
  trap 'rm -rf "$copy"' EXIT
  mkdir "$copy/trace"
  cp -r Cargo.toml src README.md docs "$copy"
  cp -r trace/Cargo.toml trace/src trace/README.md "$copy/trace"
  cd "$copy"
  for manifest in Cargo.toml trace/Cargo.toml; do
    awk '/^members =/ { print "members = [\".\", \"trace\"]"; next }
      /^(default-members|exclude) =/ { next }
      /^\[/ { skipped = /^\[\[/ || /^\[(dev-dependencies\]|profile\.dev\.package\.[a-z])/; outside = /dependencies\]/ }
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
  lowest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
  if rustup toolchain install "$lowest" --profile minimal >/dev/null 2>&1; then
    export RUSTFLAGS='-D warnings'
    cargo "+$lowest" check -p pagewise --no-default-features
    cargo "+$lowest" check -p pagewise
    cargo "+$lowest" check -p pagewise --features "$features,guarded,profiler"
  else
    echo "skipped: Rust $lowest cannot be installed"
  fi
}

# Runs targets in sequence, each as `$0 $1 TARGET`, and prints the results as a table.
several() {
  logs=$(mktemp -d)
  trap 'rm -rf "$logs"' EXIT
  failures=0
  table='target|came out|tests passed|how|what ran\n'
  while IFS='|' read -r name how what; do
    [[ $1 == in-ci && ! " ${in_ci[*]} " == *" $name "* ]] && continue
    printf '\n== %s\n' "$name"
    status=0
    "$0" "$1" "$name" </dev/null 2>&1 | tee "$logs/$name" || status=${PIPESTATUS[0]}
    passed=$(awk '/^test result:/ { passed += $4 } END { print passed + 0 }' "$logs/$name")
    # Continuous integration does not run every target.
    [ "$1" != in-ci ] || [ "$passed$status" != 00 ] || how='compiled only' what='the library'
    case $status in
    0) result=passed ;;
    75) result=skipped ;;
    *) result=FAILED failures=1 ;;
    esac
    table+="$name|$result|$passed|$how|$what\n"
  done < <(list)
  printf '\n%b' "$table" | column -t -s '|'
  return $failures
}

in_ci=(musl windows cortex_m3 wasm32 wasip1)

case ${1-} in
list) list ;;
all) several one ;;
ci) several in-ci ;;
one) run "${@:2}" ;;
in-ci) run_in_ci "$2" ;;
under-qemu) under_qemu "${@:2}" ;;
windows) run "$@" ;;
*)
  [ $# -gt 0 ] || run ''
  for name in "$@"; do "$0" one "$name"; done
  ;;
esac
