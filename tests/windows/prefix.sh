#!/usr/bin/env bash
# Sets up wine's folder, unless that is done, and starts wine's server there, which stays for a
# minute after the last program: `tests/windows/prefix.sh FOLDER`. Needs wine and Debian's
# gcc-mingw-w64-x86-64. A half-made folder, in which every program exits with 53, is removed and
# made again. Prints nothing unless it fails.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,5s/^# //p' "$0"; exit 2; }
WINEPREFIX=$(realpath -m "$1")
cd "$(dirname "$0")"
# Without the last variable, wine offers to fetch what .NET and HTML programs need.
export WINEPREFIX WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml='
# Written when setup is complete.
complete=$WINEPREFIX/complete

fail() {
  echo "$WINEPREFIX $*" >&2
  exit 1
}

set_up() {
  timeout 300 wine wineboot --init
  # wine 8 lacks this library, which Rust's `std` uses for random numbers.
  system=$WINEPREFIX/drive_c/windows/system32
  [ -e "$system/bcryptprimitives.dll" ] ||
    x86_64-w64-mingw32-gcc -shared -o "$system/bcryptprimitives.dll" bcryptprimitives.c -ladvapi32
  # A program that faults ends as on Windows, instead of waiting for a debugger.
  timeout 60 wine reg add 'HKLM\Software\Microsoft\Windows NT\CurrentVersion\AeDebug' /v Debugger /d none /f
  # The server saves the registry when it exits.
  timeout 60 wineserver -w
}

# Debian's server exits with the last program: a program that starts at that moment fails, and each
# start launches all services again, which takes seconds, and these keep the caller's output open.
# This server stays, and its services have no output. A server that already runs is left as it is.
serve() {
  wineserver -p60 || true
  timeout 60 wine cmd /c exit
}

mkdir -p "$(dirname "$WINEPREFIX")"
# One setup at a time; the long-lived server does not hold the lock.
exec 9>"$WINEPREFIX.lock"
flock 9
if [ ! -e "$complete" ]; then
  if [ -e "$WINEPREFIX" ]; then
    case $(ls -A "$WINEPREFIX" | tr '\n' ' ') in
    '' | *dosdevices\ * | *wineserver\ * | *system.reg\ *) ;;
    *) fail "is no folder of wine's" ;;
    esac
    wineserver -k >/dev/null 2>&1 9>&- || true
    rm -rf "$WINEPREFIX"
  fi
  # `errexit` is ignored inside a condition.
  set_up >"$WINEPREFIX.log" 2>&1 9>&- &
  if ! wait $!; then
    cat "$WINEPREFIX.log" >&2
    fail 'could not be set up'
  fi
  rm "$WINEPREFIX.log"
  touch "$complete"
fi
serve >/dev/null 2>&1 9>&- || fail 'has no program run; remove it, and it is made anew'
