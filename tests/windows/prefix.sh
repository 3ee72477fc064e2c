#!/usr/bin/env bash
# Sets up the folder in which wine keeps its Windows, unless that is done, and starts wine's server there, for a minute
# beyond the last program: `tests/windows/prefix.sh FOLDER`. Needs wine and Debian's gcc-mingw-w64-x86-64. A folder that
# was left half made, in which every program ends with 53, is removed and made anew. Prints nothing unless it fails.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
WINEPREFIX=$(realpath -m "$1")
cd "$(dirname "$0")"
# Without the last, wine asks to fetch what programs for .NET and pages of HTML need.
export WINEPREFIX WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml='
# Written when all is done.
complete=$WINEPREFIX/complete

fail() {
  echo "$WINEPREFIX $*" >&2
  exit 1
}

set_up() {
  timeout 300 wine wineboot --init
  # wine 8 lacks this library, of which Rust's `std` has its random numbers.
  system=$WINEPREFIX/drive_c/windows/system32
  [ -e "$system/bcryptprimitives.dll" ] ||
    x86_64-w64-mingw32-gcc -shared -o "$system/bcryptprimitives.dll" bcryptprimitives.c -ladvapi32
  # A process that touches what it must not ends as it does on Windows, and waits for no debugger.
  timeout 60 wine reg add 'HKLM\Software\Microsoft\Windows NT\CurrentVersion\AeDebug' /v Debugger /d none /f
  # The server writes what it was told when it ends.
  timeout 60 wineserver -w
}

# Debian's server ends with the last program: one that starts just then fails, and each has all services started anew,
# which takes seconds, and keep the output of who started them open. This server stays, and its services, which have no
# output. Where there is a server already, it remains what it is.
serve() {
  wineserver -p60 || true
  timeout 60 wine cmd /c exit
}

mkdir -p "$(dirname "$WINEPREFIX")"
# One at a time; the server, which lives on, does not hold the lock.
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
  # `errexit` does not hold in what is a condition.
  set_up >"$WINEPREFIX.log" 2>&1 9>&- &
  if ! wait $!; then
    cat "$WINEPREFIX.log" >&2
    fail 'could not be set up'
  fi
  rm "$WINEPREFIX.log"
  touch "$complete"
fi
serve >/dev/null 2>&1 9>&- || fail 'has no program run; remove it, and it is made anew'
