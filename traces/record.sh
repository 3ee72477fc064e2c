#!/usr/bin/env bash
# Re-makes the bundled traces: traces/record.sh [NAME…]; without names, all of them.
#
# One function below per trace: it installs what it needs, prepares the input and calls `record`,
# which runs the program twice, without and with the recorder, demands the same output of both, and
# prints one line. To add a trace, add a function `trace_NAME` and its row in README.md.
#
# Programs come from Debian (apt-get) and the crates registry (cargo); inputs from Debian packages,
# which are unpacked into a temporary directory and not installed, and from inputs/. Commands run in
# that directory, with relative paths and an environment of their own, so that nothing of this
# machine enters a trace.
set -euo pipefail
export LC_ALL=C TZ=UTC

traces=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(dirname "$traces")
target=${CARGO_TARGET_DIR:-$repository/target}
pagewise=$target/release/pagewise
command -v cargo >/dev/null || { echo "record.sh: needs cargo" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "record.sh: $*" >&2
    exit 1
}

# need PACKAGE…: has the Debian packages installed.
need() {
    local package missing=()
    for package in "$@"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
            missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    ((EUID == 0)) ||
        fail "not installed; as root: apt-get install --no-install-recommends ${missing[*]}"
    echo "record.sh: installing ${missing[*]}" >&2
    apt-get install -qq -y --no-install-recommends "${missing[@]}" >apt.log 2>&1 ||
        fail "apt-get install ${missing[*]}: $(tail -n 1 apt.log) (has apt-get update been run?)"
}

# unpack PACKAGE: puts the files of a Debian package into ./PACKAGE/, if they are not there yet.
unpack() {
    [[ ! -d $1 ]] || return 0
    mkdir "$1.deb"
    (cd "$1.deb" && apt-get download -qq -o APT::Sandbox::User=root "$1" >/dev/null) ||
        fail "apt-get download $1 failed (has apt-get update been run?)"
    dpkg-deb -x "$1.deb"/*.deb "$1"
}

# perl_pods: puts perl's manuals in their source form into ./pods/.
perl_pods() {
    unpack perl-doc
    ln -sfn perl-doc/usr/share/perl/*/pod pods
}

# from_crate COMMAND CRATE VERSION OPTION…: has a crate's command built, and puts it into ./bin/.
from_crate() {
    local built=$target/record-tools/$2-$3
    [[ -x $built/bin/$1 ]] || {
        echo "record.sh: building $2 $3" >&2
        cargo install --quiet --locked --root "$built" "$2" --version "$3" "${@:4}" ||
            fail "cargo install $2 failed"
    }
    mkdir -p bin
    ln -sf "$built/bin/$1" "bin/$1"
}

# debian PACKAGE: name and version of an installed package, for a trace's header.
debian() {
    dpkg-query -W -f '${Package} ${Version} (Debian)' "$1"
}

# record NAME ORIGIN INPUT COMMAND…: records COMMAND as NAME.pwt; where the program comes from and
# what the input is go into the header. These variables say more:
#   environment  NAME=VALUE… the command gets beside the usual
#   stdin        file the command reads (none)
#   product      file the command writes, compared between the two runs like stdout (none)
#   order        "any": the lines of the output may come in any order (threads)
#   process      the process to record, where the command starts several
record() {
    local name=$1 note="$2: $3" run length told
    shift 3
    local clean=(env -i LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH=0
        "PATH=$work/bin:/usr/sbin:/usr/bin:/sbin:/bin" "HOME=$work" "TMPDIR=$work")
    local extra=() recorder=(record --output "$name.pwt" --note "$note")
    read -ra extra <<<"${environment-}"
    [[ -z ${process-} ]] || recorder+=(--program "$process")
    for run in plain recorded; do
        local command=("${clean[@]}" "${extra[@]}")
        [[ $run == plain ]] || command+=("$pagewise" "${recorder[@]}" --)
        "${command[@]}" "$@" <"${stdin:-/dev/null}" >"$run.out" 2>"$run.err" ||
            fail "$name: the $run run failed: $(tail -n 1 "$run.err")"
        [[ ${order-} != any ]] || sort -o "$run.out" "$run.out"
        [[ -z ${product-} ]] || cat "$product" >>"$run.out"
    done
    cmp -s plain.out recorded.out || fail "$name: recording changed what the program writes"
    # PROGRAM (process N): EVENTS to FILE, at most … live; and what the recorder missed, if anything
    told=$(sed -n 's/^pagewise: .*: \([0-9,]* events\) to .* live\(.*\)/\1\2/p' recorded.err)
    length=$(stat -c %s "$name.pwt")
    mv "$name.pwt" "$traces/"
    printf '%-12s %8d bytes, %s\n' "$name" "$length" "$told"
}

# ---- the papers' programs, or their kin ----

trace_ghostscript() {
    need ghostscript
    unpack groff
    local docs=groff/usr/share/doc/groff-base document documents=()
    for document in "$docs"/examples/{,hdtbl/}*.ps.gz "$docs"/{examples/mom,pdf}/*.pdf.gz; do
        documents+=("$(basename "$document" .gz)")
        gzip -dc "$document" >"${documents[-1]}"
    done
    record ghostscript "$(debian ghostscript)" "groff's PostScript and PDF documents in colour" \
        gs -q -dNOPAUSE -dBATCH -dSAFER -sDEVICE=ppmraw -r72 -sOutputFile=%stdout \
        "${documents[@]}"
}

trace_espresso() {
    need libclang-14-dev python3
    local version=5.6.4
    from_crate espresso espresso-logic "$version" --features cli
    python3 inputs/arithmetic_pla.py >arithmetic.pla
    record espresso "espresso-logic $version (crates registry)" "arithmetic functions of 8 bits" \
        espresso arithmetic.pla
}

# For p2c.
trace_f2c() {
    need f2c python3
    python3 inputs/fortran.py >program.f
    stdin=program.f record f2c "$(debian f2c)" "80 generated subroutines in Fortran 77" \
        f2c -A
}

trace_gawk() {
    need gawk
    perl_pods
    record gawk "$(debian gawk)" "word frequencies and concordance of three perl manuals" \
        gawk -f inputs/concordance.awk pods/perlop.pod pods/perlopentut.pod pods/perlre.pod
}

# For cfrac.
trace_factor() {
    need coreutils python3
    python3 inputs/smooth_numbers.py >numbers
    stdin=numbers record factor "$(debian coreutils)" "1,000 smooth numbers above 2^200" \
        factor
}

trace_groff() {
    need groff
    unpack perl-doc
    gzip -dc perl-doc/usr/share/man/man1/perlop.1.gz >perlop.1
    process=troff record groff "$(debian groff)" "the manual page perlop" \
        groff -man -Tps perlop.1
}

# For electric.
trace_yosys() {
    need yosys
    record yosys "$(debian yosys)" "elaboration of a small processor" yosys -q -p \
        "read_verilog inputs/cpu.v; hierarchy -top cpu; proc; flatten; opt; stat; write_json"
}

trace_perl() {
    need perl
    perl_pods
    environment="PERL_HASH_SEED=0 PERL_PERTURB_KEYS=0" \
        record perl "$(debian perl)" "index of perl's manuals A to C" \
        perl inputs/pod_index.pl pods/perl[a-c]*.pod
}

# ---- programs of today ----

trace_sqlite3() {
    need sqlite3
    stdin=inputs/ledger.sql record sqlite3 "$(debian sqlite3)" "a ledger of 20,000 entries" \
        sqlite3 :memory:
}

trace_python3() {
    need python3
    local package # python3 itself is only a link to it
    package=$(basename "$(readlink -f /usr/bin/python3)")
    environment="PYTHONHASHSEED=0 PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1" \
        record python3 "$(debian "$package")" "survey of modules of its own library" \
        python3 inputs/stdlib_survey.py
}

trace_git() {
    need git python3
    perl_pods
    git init --quiet --bare --template= history.git
    git --git-dir=history.git symbolic-ref HEAD refs/heads/main
    python3 inputs/history.py pods/perl5*delta.pod |
        git --git-dir=history.git fast-import --quiet
    record git "$(debian git)" "log with patches of 600 commits" \
        git --no-pager --git-dir=history.git log --patch --stat
}

trace_jq() {
    need jq python3
    python3 inputs/orders.py >orders.json
    record jq "$(debian jq)" "queries on 2,000 orders" \
        jq -f inputs/orders.jq orders.json
}

trace_redis() {
    need redis-server redis-tools python3
    python3 inputs/commands.py >commands.resp
    process=redis-server record redis "$(debian redis-server)" \
        "15,000 mixed commands, then redis-benchmark" sh inputs/redis_session.sh
}

# Debian's compiler uses malloc; the official one has an allocator of its own linked in.
trace_rustc() {
    need rustc
    unpack librust-memchr-dev
    local sources=(librust-memchr-dev/usr/share/cargo/registry/memchr-*/src/lib.rs)
    product=libmemchr.rmeta record rustc "$(debian rustc)" "checking the crate memchr" \
        rustc --edition 2018 --crate-name memchr --crate-type lib --cap-lints allow \
        --emit metadata "${sources[@]}"
}

trace_ripgrep() {
    need ripgrep
    unpack perl-doc
    unpack swig4.0-examples
    order=any record ripgrep "$(debian ripgrep)" "a search with four threads" \
        rg --threads 4 --line-number '\b(class|def|sub) +_?(\w+).*\bself\b' \
        perl-doc swig4.0-examples
}

# statistics: re-makes that section of README.md from the traces, with the published figures of the
# corresponding programs below each row.
statistics() {
    "$pagewise" info --markdown "$traces"/*.pwt "$traces"/mallocbench/*.pwt | awk -F '|' '
        NR == FNR {
            row = "| *" $3 "* |"
            for (i = 4; i <= NF; i++) row = row " *" $i "* |"
            published[$1, $2] = row
            next
        }
        match($0, /\(Table [0-9]+\)/) { table = substr($0, RSTART + 7, RLENGTH - 8) }
        { print; name = $2; gsub(/ /, "", name) }
        (table, name) in published { print published[table, name] }
    ' <(grep -v '^#' "$traces/../papers/src/hasan/published.txt") - >"$work/statistics"
    sed -i -e "/^<!-- statistics/r $work/statistics" \
        -e '/^<!-- statistics/,/^<!-- end of statistics/ { /^<!--/!d }' "$traces/README.md"
}

main() {
    local name all names=("$@")
    mapfile -t all < <(compgen -A function trace_ | sed 's/^trace_//')
    ((${#names[@]})) || names=("${all[@]}")
    for name in "${names[@]}"; do
        declare -F "trace_$name" >/dev/null || fail "no trace '$name', only ${all[*]}"
    done
    cargo build --release --quiet --package pagewise-lab --manifest-path "$repository/Cargo.toml"
    cp -r "$traces/inputs" "$work/inputs"
    for name in "${names[@]}"; do
        (cd "$work" && "trace_$name")
    done
    statistics
}

main "$@"
