#!/usr/bin/env bash
# Removes the guard of each promise, one at a time, and runs the test that must then fail:
#
#     tests/guards/run.sh [TEXT]
#
# Prints a row of Markdown for each guard of guards.txt, or for those whose test has TEXT in its
# name. Exits with 1 if a test passes without its guard, fails with it, or does not compile. Works
# on a copy of HEAD in target/guards; takes half a minute per guard.
set -euo pipefail
cd "$(dirname "$0")/../.."

root=$PWD
tree=$root/target/guards/tree
log=$root/target/guards/log
export CARGO_TARGET_DIR=$root/target/guards/target CARGO_TERM_COLOR=never RUST_BACKTRACE=0
rm -rf "$tree"
git worktree prune
git worktree add --quiet --detach "$tree"
trap 'git -C "$root" worktree remove --force "$tree"' EXIT

# cargo_test FILE::NAME [ARGUMENT…]: runs a test, in whichever package it is.
cargo_test() {
  local file=${1%%::*} name=${1##*::} package target
  shift
  case $file in
    trace/*) package=pagewise-trace ;;
    lab/*) package=pagewise-lab ;;
    preload/*) package=pagewise-preload ;;
    *) package=pagewise ;;
  esac
  target=${file#*tests/}
  case $file in
    src/*) target=--lib ;;
    *) target="--test ${target%%[./]*}" ;;
  esac
  # shellcheck disable=SC2086
  (cd "$tree" && CARGO_INCREMENTAL=1 cargo test --quiet --locked -p $package $target "$@" -- "$name")
}

bad=0
failing=
# complain WHAT: prints the row of a guard that shows nothing, and the end of what cargo said.
complain() {
  echo "| \`$test\` | \`$file\` | **$1** |"
  tail -n 20 "$log" >&2
  bad=1
}

with_guard() {
  cargo_test "$test" >"$log" 2>&1 && return
  complain 'fails with its guard'
  failing+=" $test "
}

without_guard() {
  local text rest
  case $failing in *" $test "*) return ;; esac
  text=$(cat "$tree/$file"; echo x)
  rest=${text#*"$old"}
  if [ "$rest" = "$text" ]; then
    : >"$log"
    complain 'the guard is not there'
    return
  fi
  text=${text%%"$old"*}$new$rest
  printf '%s' "${text%x}" >"$tree/$file"
  if ! cargo_test "$test" --no-run >"$log" 2>&1; then
    complain 'does not compile'
  elif cargo_test "$test" >"$log" 2>&1; then
    complain passes
  else
    echo "| \`$test\` | \`$file\`: \`${old# }\` | fails |"
  fi
  git -C "$tree" checkout --quiet "$file"
}

# each ACTION TEXT: does it for each guard whose test has TEXT in its name.
each() {
  local line test file old new
  while IFS= read -r line; do
    case $line in
      'test '*) test=${line#test } ;;
      'file '*) file=${line#file } ;;
      '- '*) old=${line#- } ;;
      '+ '*)
        new=${line#+ }
        case $test in *"$2"*) "$1" </dev/null ;; esac
        ;;
    esac
  done <tests/guards/guards.txt
}

echo '| test | the guard that was taken out | the test |'
echo '|---|---|---|'
# All with their guards first: one build serves them.
each with_guard "${1-}"
each without_guard "${1-}"
exit $bad
