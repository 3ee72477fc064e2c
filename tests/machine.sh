#!/usr/bin/env bash
# Runs the allocator's tests on another machine, emulated by QEMU: ten CPUs in two NUMA nodes, under
# this Debian's kernel, with all memory backed by huge pages. Takes six minutes or more.
#
#     tests/machine.sh [CPUS]
#
# Needs Debian, root to install packages, and the target x86_64-unknown-linux-musl.
set -euo pipefail
cd "$(dirname "$0")/.."
cpus=${1-10}
target=x86_64-unknown-linux-musl

case $cpus in
'' | *[!0-9]*)
  sed -n '2,8s/^# \?//p' "$0"
  exit 2
  ;;
esac
for tool in qemu-system-x86_64:qemu-system-x86 cpio:cpio busybox:busybox-static; do
  command -v "${tool%:*}" >/dev/null || apt-get -qq install -y --no-install-recommends "${tool#*:}" >/dev/null
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
(cd "$work" && apt-get -qq -o APT::Sandbox::User=root download "$kernel" && dpkg -x ./*.deb kernel && rm ./*.deb)

# The initial RAM disk: the tests, the source files that they read, and a shell.
disk=$work/disk
mkdir -p "$disk"/{bin,proc,sys,dev,tmp,etc,tests} "$disk$PWD"
cp -r src docs "$disk$PWD"
cp "$(command -v busybox)" "$disk/bin/busybox"
echo 'root:x:0:0:root:/:/bin/sh' >"$disk/etc/passwd"
rustup target add "$target" >/dev/null 2>&1 || true
cargo test --locked -p pagewise --target "$target" --lib --test global --test hardened --no-run 2>&1 |
  sed -n 's/^ *Executable .*(\(.*\))$/\1/p' >"$work/executables"
while read -r executable; do
  name=$(basename "$executable")
  strip -o "$disk/tests/${name%-*}" "$executable"
done <"$work/executables"
cat >"$disk/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin RUST_BACKTRACE=0 PROPTEST_CASES=4
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
echo "Linux $(uname -r), $(nproc) CPUs, $(ls -d /sys/devices/system/node/node* | wc -l) nodes," \
  "huge pages: $(cat /sys/kernel/mm/transparent_hugepage/enabled)"
cd /tests
for tests in *; do
  [ "$tests" = pagewise ] && only=native:: || only=
  "./$tests" $only --test-threads 2 2>&1 |
    grep -E '^test result|FAILED|panicked' | sed "s/^test result/$tests: &/" | grep -v 'FAILED. 0 passed'
done
poweroff -f
INIT
chmod +x "$disk/init"
(cd "$disk" && find . | cpio -o -H newc 2>/dev/null | gzip -1 >"$work/disk.gz")

half=$((cpus / 2))
timeout "${LIMIT-1800}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m 6144 -smp "$cpus" \
  -object memory-backend-ram,size=3G,id=first -numa "node,nodeid=0,cpus=0-$((half - 1)),memdev=first" \
  -object memory-backend-ram,size=3G,id=second -numa "node,nodeid=1,cpus=$half-$((cpus - 1)),memdev=second" \
  -nographic -no-reboot -append 'console=ttyS0 quiet' -kernel "$work"/kernel/boot/vmlinuz-* -initrd "$work/disk.gz" |
  tr -d "\r" | sed -n "/Linux \|test result\|FAILED\|panicked/p" | tee "$work/out"
awk '/test result/ { suites++ } /FAILED/ { failed = 1 } END { exit failed || suites < 3 }' "$work/out"
