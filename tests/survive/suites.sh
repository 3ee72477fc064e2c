#!/usr/bin/env bash
# Runs the test suites of Debian's programs, with libpagewise.so and without:
#
#     tests/survive/suites.sh FOLDER [PROGRAM …]
#
# Prints a Markdown table of the tests that fail either way. The program under test is Debian's
# installed one; its tests come from its source package, which is fetched to FOLDER. Of large
# suites, a part that takes minutes is run, as noted at each function. Without names, all suites
# run, one after another, niced; the table takes about half an hour on an idle machine.
#
# As root, it installs the programs; the sources need a deb-src line in apt's lists. LIBRARY=path
# uses another library, NICE another niceness. Logs stay in FOLDER.
#
# PAGEWISE_ variables in the environment set the library's mode; the table's first line names them:
#
#     REUSE=1 AS=hardened PAGEWISE_HARDENED=1 tests/survive/suites.sh FOLDER python perl
#
# REUSE=1 takes what an earlier run left in FOLDER of a suite without the library, if it did. AS=name
# gives the logs of the runs with the library another name than 1.
set -uo pipefail
root=$(realpath "$(dirname "$0")/../..")
[ $# -ge 1 ] || { sed -n '2,19s/^# \?//p' "$0"; exit 2; }
mkdir -p "$1" && cd "$1" && work=$PWD
shift
all=(python perl tcl sqlite gawk bash make jq redis ruby git)
programs=("$@")
[ $# -gt 0 ] || programs=("${all[@]}")
if [ -z "${LIBRARY-}" ]; then
  (cd "$root" && cargo build --quiet --release --locked -p pagewise-preload) || exit 1
  LIBRARY=${CARGO_TARGET_DIR-$root/target}/release/libpagewise.so
fi
LIBRARY=$(realpath "$LIBRARY")
export LC_ALL=C.UTF-8 TERM=dumb
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)

if [ "$(id -u)" = 0 ]; then
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
    python3 libpython3.11-testsuite perl tcl tcl8.6-dev gawk make jq redis-server ruby git gcc dpkg-dev \
    libssl-dev libcurl4-openssl-dev libexpat1-dev zlib1g-dev >"$work/apt.log" 2>&1 || true
fi

# Unpacks the source of a package, that of the release if the newest is not there, and enters its
# folder.
source_of() {
  local folder
  folder=$(find "$work" -maxdepth 1 -type d -name "$1-[0-9]*" | head -1)
  if [ -z "$folder" ]; then
    (cd "$work" && { apt-get -qq source "$1" || apt-get -qq source "$1/$release"; } >"$work/$1.source.log" 2>&1)
    folder=$(find "$work" -maxdepth 1 -type d -name "$1-[0-9]*" | head -1)
  fi
  [ -n "$folder" ] && cd "$folder"
}

# Runs a command in the current mode, with the library or without. A shell's background job, which
# ignores SIGINT, may run the script, too.
under() {
  if [ "$preload" = 1 ]; then
    env --default-signal=INT,QUIT LD_PRELOAD="$LIBRARY" "$@"
  else
    env --default-signal=INT,QUIT "$@"
  fi
}

# Each of these writes its log to $log and prints the names of the failed tests.

python() { # Containers, text, files, threads, processes, C types; PYTHONMALLOC=malloc.
  export PYTHONMALLOC=malloc
  cd "$work" && under /usr/bin/python3 -m test -q \
    test_list test_dict test_set test_tuple test_bytes test_re test_json test_copy test_array \
    test_memoryview test_deque test_heapq test_itertools test_functools test_gc test_weakref \
    test_generators test_thread test_threading test_fork1 test_ctypes test_mmap test_zlib \
    test_fileio test_struct test_long test_sort test_ast test_marshal test_csv test_xml_etree test_hashlib \
    >"$log" 2>&1
  grep -oE '^test test_[a-z0-9_]+ (failed|crashed)|^(FAIL|ERROR): [a-zA-Z0-9_]+' "$log" |
    sed -E 's/^(test|FAIL:|ERROR:) //'
}

perl() { # The language's own tests: t/base, cmd, comp, op, re, mro.
  source_of perl || return 1
  if [ ! -e t/perl ]; then
    mkdir -p installed && for folder in /usr/share/perl/5.36 /usr/lib/x86_64-linux-gnu/perl/5.36; do
      cp -rn "$folder/." installed/
    done
    mv lib lib.source && mv installed lib
    ln -s /usr/bin/perl t/perl
  fi
  cd t && under prove --nocolor -Q -e ./perl -r base cmd comp op re mro >"$log" 2>&1
  sed -n 's/^\([a-z_]*\/[^ ]*\.t\) .*Wstat.*/\1/p' "$log"
}

tcl() { # All but tests that need a network or take minutes.
  source_of tcl8.6 || return 1
  cd tests && under tclsh8.6 all.tcl -verbose error -singleproc 0 \
    -notfile 'http*.test socket.test clock.test httpold.test interp.test' >"$log" 2>&1
  sed -n 's/^==== \([^ ]*\) .*FAILED$/\1/p' "$log"
}

sqlite() { # With its own test program, built from Debian's source: tables, indexes, joins, text, blobs.
  source_of sqlite3 || return 1
  [ -x testfixture ] || { ./configure --quiet && make testfixture; } >"$work/sqlite.build.log" 2>&1
  for test in select1 select2 select3 select4 insert insert2 update delete join join2 index index2 \
    where where2 func expr trans savepoint vacuum blob incrblob alter trigger1 trigger2 view subquery \
    collate1 sort in fkey1 fkey2 json101 fts3aa fts4aa rtree1 pager1 wal wal2 malloc malloc5 mutex1 \
    thread001 thread002 memsubsys1 softheap1 backup; do
    [ -e test/$test.test ] || continue
    echo "== $test"
    under timeout 300 ./testfixture test/$test.test || echo "! $test ends with $?"
  done >"$log" 2>&1
  grep -oE '^! [a-z0-9.-]+ (expected|got)|^! .* ends with [0-9]+' "$log" | cut -c3- | sort -u
}

gawk() { # All.
  source_of gawk || return 1
  [ -e test/Makefile ] || ./configure >"$work/gawk.build.log" 2>&1
  ln -sf /usr/bin/gawk gawk && rm -f test/_*
  under make -C test -k check >"$log" 2>&1
  (cd test && ls | sed -n 's/^_//p')
}

bash_() { # All.
  source_of bash || return 1
  for tool in recho zecho printenv xcase; do
    [ -x tests/$tool ] || gcc -w -o tests/$tool support/$tool.c
  done
  cd tests && : >"$log"
  for test in run-*; do
    case $test in run-all | run-minimal | run-gprof) continue ;; esac
    echo "== $test" >>"$log"
    out=$(BASH_TSTOUT=$work/bash.out PATH=.:$PATH THIS_SH=/bin/bash under timeout 120 sh "$test" 2>&1 </dev/null |
      grep -v '^warning')
    echo "$out" >>"$log"
    [ -z "$out" ] || echo "$test"
  done
}

make_() { # All.
  source_of make-dfsg || return 1
  cd tests && sed 's/@[A-Za-z_]*@//g' config-flags.pm.in >config-flags.pm
  under /usr/bin/perl run_make_tests.pl -make /usr/bin/make >"$log" 2>&1
  grep FAILED "$log" | sed 's/ \.\.\.*/ /'
}

jq() { # Its file of programs and answers.
  source_of jq || return 1
  under /usr/bin/jq --run-tests tests/jq.test >"$log" 2>&1
  grep -E '^\*\*\*|Assertion' "$log"
}

redis() { # Every type of value, keys, expiry, dumps, scripts.
  source_of redis || return 1
  for tool in redis-server redis-cli redis-benchmark redis-check-rdb redis-check-aof; do
    ln -sf /usr/bin/$tool src/$tool
  done
  ln -sf /usr/bin/redis-server src/redis-sentinel
  under ./runtest --clients 1 --single unit/type/string --single unit/type/list --single unit/type/hash \
    --single unit/type/set --single unit/type/zset --single unit/type/stream --single unit/keyspace \
    --single unit/expire --single unit/dump --single unit/scripting --single unit/multi \
    --single unit/hyperloglog --single unit/bitops --single integration/rdb >"$log" 2>&1
  sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -aoE '^\[(err|exception)\].*' | cut -c1-90 | sort -u
}

ruby() { # The core classes, threads, garbage collection.
  source_of ruby3.1 || return 1
  under /usr/bin/ruby test/runner.rb --ruby=/usr/bin/ruby test/ruby/test_{array,string,symbol,regexp}.rb \
    test/ruby/test_{range,struct,integer,rational,thread_queue,fiber,weakmap,enumerator,marshal}.rb \
    >"$log" 2>&1
  sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -A1 -E '^ *[0-9]+\) (Error|Failure)' | grep -oE '^[A-Za-z0-9_:]+#[a-z0-9_?!]+'
}

git() { # The basics, plumbing, the index, packs: t0000 to t1509 and t5300.
  source_of git || return 1
  [ -d templates/blt ] || {
    make -s NO_GETTEXT=1 NO_TCLTK=1 t/helper/test-tool GIT-BUILD-OPTIONS &&
      make -s -C templates SHELL_PATH=/bin/sh PERL_PATH=/usr/bin/perl
  } >"$work/git.build.log" 2>&1 || return 1
  cd t && : >"$log"
  for test in t000[0-9]*.sh t002*.sh t10*.sh t13*.sh t14*.sh t15*.sh t5300*.sh; do
    echo "== $test" >>"$log"
    GIT_TEST_INSTALLED=/usr/bin GIT_SKIP_TESTS= under timeout 300 sh "$test" >"$work/git.one" 2>&1 ||
      { grep -oE '^not ok [0-9]+' "$work/git.one" || echo ends; } | sed "s/^/${test%%-*} /"
    cat "$work/git.one" >>"$log"
  done
}

version() {
  dpkg-query -W -f '${Version}' "$1" 2>/dev/null
}

ran() { # Prints how many tests a log reports, in the suite's own words.
  sed 's/\x1b\[[0-9;]*m//g' "$1" | grep -aE \
    '^Total tests: |^Files=|^all.tcl:.*Total|tests passed|tests, .*assertions|Tests? in .*Categor|^Result: |All tests passed|[0-9]+ errors out of|TESTS? FAILED|ALL TESTS PASSED' |
    tail -1 | cut -c1-110
}

printf '%s, library %s %s\n\n' "$(date -u '+%-d %B %Y')" \
  "$(cd "$root" && /usr/bin/git rev-parse --short HEAD)" "$(env | grep '^PAGEWISE_' | paste -sd ' ')"
echo '| program | version | seconds without, with | failures without | with | only without | only with |'
echo '|---|---|---:|---:|---:|---|---|'
for program in "${programs[@]}"; do
  case $program in
  bash | make) run=${program}_ ;;
  *) run=$program ;;
  esac
  case $program in
  python) package=python3.11 ;;
  tcl) package=tcl8.6 ;;
  sqlite) package=sqlite3 ;;
  redis) package=redis-server ;;
  ruby) package=ruby3.1 ;;
  *) package=$program ;;
  esac
  times=
  for preload in 0 1; do
    name=$work/$program.0
    [ $preload = 0 ] || name=$work/$program.${AS-1}
    log=$name.log
    if [ $preload = 1 ] || [ -z "${REUSE-}" ] || [ ! -s "$name.seconds" ]; then
      before=$SECONDS
      rm -f "$log" "$name.seconds"
      (renice -n "${NICE-10}" $BASHPID >/dev/null && $run) 2>"$name.err" | sort -u >"$name.failures"
      [ "${PIPESTATUS[0]}" != 1 ] || [ -s "$log" ] || echo "cannot be run" >"$name.failures"
      echo $((SECONDS - before)) >"$name.seconds"
    fi
    times+="$(cat "$name.seconds") "
  done
  without=$work/$program.0.failures with=$work/$program.${AS-1}.failures
  list() { paste -sd ';' | sed 's/|/\\|/g; s/;/; /g; s/^$/–/'; }
  echo "| $program | $(version $package) | $times| $(wc -l <"$without") | $(wc -l <"$with") |" \
    "$(comm -23 "$without" "$with" | list) | $(comm -13 "$without" "$with" | list) |"
  echo "$program: $(ran "$work/$program.0.log") / $(ran "$log")" >&2
done
