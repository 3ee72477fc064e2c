#!/bin/sh
# Builds what others use of pagewise, and installs it: see the usage below, and docs/c.md.
set -eu

usage() {
    cat <<'END'
Usage: ./install.sh build [WHAT] [--profile NAME]
       ./install.sh install [WHAT] [--profile NAME] [--prefix DIR] [--libdir DIR]
       ./install.sh uninstall [--prefix DIR] [--libdir DIR]

WHAT is `library` (libpagewise and libpagewise_prefixed, shared and static, pagewise.h, pkg-config files),
`workbench` (the program pagewise, its man pages and completions), or `all`, the default.

  build      compiles with cargo, as any user; needs a Rust toolchain, cc and binutils
  install    copies what was built, as whoever may write there
  uninstall  removes the files that install copies

  --prefix DIR    where to: /usr/local unless said otherwise
  --libdir DIR    where libraries go: PREFIX/lib unless said otherwise
  --profile NAME  cargo's profile: dist, stripped and optimised as a whole, unless said otherwise

Environment: DESTDIR, a folder to install below, as for a package; CARGO, CARGO_TARGET_DIR; CC, LD, AR, NM,
OBJCOPY, STRIP.
END
}

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

[ $# -gt 0 ] || { usage; exit 2; }
command=$1
shift
what=all prefix=/usr/local libdir='' profile=dist
while [ $# -gt 0 ]; do
    case $1 in
        library | workbench | all) what=$1 ;;
        --prefix | --libdir | --profile)
            [ $# -gt 1 ] || fail "$1 wants a value"
            case $1 in
                --prefix) prefix=$2 ;;
                --libdir) libdir=$2 ;;
                --profile) profile=$2 ;;
            esac
            shift
            ;;
        --prefix=*) prefix=${1#*=} ;;
        --libdir=*) libdir=${1#*=} ;;
        --profile=*) profile=${1#*=} ;;
        -h | --help) usage; exit 0 ;;
        *) fail "'$1' is unknown; ./install.sh --help" ;;
    esac
    shift
done
case $prefix in /*) ;; *) fail "--prefix must be an absolute path, not '$prefix'" ;; esac
libdir=${libdir:-$prefix/lib}
case $libdir in /*) ;; *) fail "--libdir must be an absolute path, not '$libdir'" ;; esac

root=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
# Where cargo leaves the files of a profile.
case $profile in dev | test) built=$target/debug ;; *) built=$target/$profile ;; esac
# What is built and not yet installed, as it will lie below the prefix.
stage=$built/stage

# The version, of the workspace; until 1.0 a minor version may break programs.
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")
minor=${version%.*}
case $minor in 0.*) abi=$minor ;; *) abi=${minor%.*} ;; esac

CARGO=${CARGO:-cargo} CC=${CC:-cc} LD=${LD:-ld} AR=${AR:-ar} NM=${NM:-nm}
OBJCOPY=${OBJCOPY:-objcopy} STRIP=${STRIP:-strip}

# library NAME [CARGO'S OPTIONS]: libNAME.a and libNAME.so.VERSION in the stage.
#
# Cargo's static library has an object for each part of Rust's library, whose names would clash with those of
# another library made of Rust. So all are joined into one object, in which only what the shared library
# exports is visible: a program that uses one function of the family has all of them. The shared library is
# linked of the same object, since rustc's own list of exports admits no versions beside it.
library() {
    name=$1
    shift
    "$CARGO" build --quiet --locked --manifest-path "$root/preload/malloc/Cargo.toml" \
        --target-dir "$target" --profile "$profile" "$@"
    "$NM" -D --defined-only "$built/libpagewise.so" | awk '{ print $3 }' | sort >"$work/exports"
    grep -q '^pagewise_malloc$' "$work/exports" || fail "$built/libpagewise.so exports no pagewise_malloc"
    "$LD" -r -o "$work/whole.o" --whole-archive "$built/libpagewise.a"
    # Rust's own library carries bitcode along, which is of no use here, and no sound whole when joined.
    "$OBJCOPY" --keep-global-symbols="$work/exports" -R .llvmbc -R .llvmcmd "$work/whole.o" "$work/$name.o"
    [ "$profile" = dev ] || "$STRIP" --strip-unneeded "$work/$name.o"
    # The archive leaves these to the C library, whose own a program that is linked with `-static` has as well.
    # A program may define some of C++'s operators itself, as with the C++ library, where they are weak, too.
    "$OBJCOPY" --localize-symbol=dlopen --localize-symbol=prctl \
        --wildcard --weaken-symbol='_Zn[wa]*' --weaken-symbol='_Zd[la]*' "$work/$name.o" "$work/archived.o"
    rm -f "$stage/lib/lib$name.a"
    "$AR" rcs "$stage/lib/lib$name.a" "$work/archived.o"

    # Names of our own have a version; `malloc` and its like must have none: who asks for GLIBC_2.2.5's would
    # not be given ours.
    printf 'PAGEWISE_%s { global: pagewise_*; };\n' "$abi" >"$work/versions"
    # With the part of the unwinder that it uses, if the compiler has it as an archive: loading libgcc_s.so
    # would take as long as the rest of its startup.
    case $("$CC" -print-file-name=libgcc_eh.a) in /*) unwinder=-static-libgcc ;; *) unwinder= ;; esac
    # shellcheck disable=SC2086
    "$CC" -shared $unwinder -o "$stage/lib/lib$name.so.$version" "$work/$name.o" \
        -Wl,-soname,"lib$name.so.$abi" -Wl,--version-script="$work/versions" -Wl,--gc-sections \
        -Wl,-z,relro -Wl,-z,now -lpthread -ldl
    [ "$profile" = dev ] || "$STRIP" "$stage/lib/lib$name.so.$version"
    ln -sf "lib$name.so.$version" "$stage/lib/lib$name.so.$abi"
    ln -sf "lib$name.so.$abi" "$stage/lib/lib$name.so"
}

build() {
    [ "$(uname -s)" = Linux ] || fail "the library is for Linux"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$stage/lib" "$stage/include" "$stage/bin"
    if [ "$what" != workbench ]; then
        for tool in "$CC" "$LD" "$AR" "$NM" "$OBJCOPY" "$STRIP"; do
            command -v "$tool" >/dev/null || fail "no $tool: Debian's packages gcc and binutils have it"
        done
        library pagewise_prefixed --no-default-features
        library pagewise
        cp "$root/preload/malloc/include/pagewise.h" "$stage/include/"
    fi
    if [ "$what" != library ]; then
        # Optimised as a whole it would take minutes more to build, and be no better.
        CARGO_PROFILE_DIST_LTO=off CARGO_PROFILE_DIST_CODEGEN_UNITS=16 "$CARGO" build --quiet --locked \
            --manifest-path "$root/lab/Cargo.toml" --target-dir "$target" --profile "$profile"
        cp "$built/pagewise" "$stage/bin/"
        rm -rf "$stage/share"
        share=$stage/share
        mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" \
            "$share/fish/vendor_completions.d"
        "$stage/bin/pagewise" man "$share/man/man1"
        "$stage/bin/pagewise" completions bash >"$share/bash-completion/completions/pagewise"
        "$stage/bin/pagewise" completions zsh >"$share/zsh/site-functions/_pagewise"
        "$stage/bin/pagewise" completions fish >"$share/fish/vendor_completions.d/pagewise.fish"
    fi
}

# pc NAME DESCRIPTION: a pkg-config file.
pc() {
    cat <<END
prefix=$prefix
libdir=$libdir
includedir=\${prefix}/include

Name: $1
Description: $2
Version: $version
Libs: -L\${libdir} -l$(echo "$1" | tr - _)
Libs.private: -lpthread -ldl
Cflags: -I\${includedir}
END
}

# put MODE FILE FOLDER: copies a file, by another name first, so that a program that has the old one open
# keeps it.
put() {
    mkdir -p "$3"
    to=$3/$(basename "$2")
    rm -f "$to.new"
    cp -P "$2" "$to.new"
    [ -L "$2" ] || chmod "$1" "$to.new"
    mv -f "$to.new" "$to"
}

install_all() {
    dest=${DESTDIR:-}
    if [ "$what" != workbench ]; then
        [ -e "$stage/lib/libpagewise.so.$version" ] || fail "nothing is built: ./install.sh build library"
        for file in "$stage"/lib/libpagewise*.a; do put 644 "$file" "$dest$libdir"; done
        for name in pagewise_prefixed pagewise; do
            put 755 "$stage/lib/lib$name.so.$version" "$dest$libdir"
            put 755 "$stage/lib/lib$name.so.$abi" "$dest$libdir"
            put 755 "$stage/lib/lib$name.so" "$dest$libdir"
        done
        put 644 "$stage/include/pagewise.h" "$dest$prefix/include"
        mkdir -p "$dest$libdir/pkgconfig"
        pc pagewise "memory allocator, in the place of malloc" >"$dest$libdir/pkgconfig/pagewise.pc"
        pc pagewise-prefixed "memory allocator, beside malloc" \
            >"$dest$libdir/pkgconfig/pagewise-prefixed.pc"
    fi
    if [ "$what" != library ]; then
        [ -e "$stage/bin/pagewise" ] || fail "nothing is built: ./install.sh build workbench"
        put 755 "$stage/bin/pagewise" "$dest$prefix/bin"
        (cd "$stage" && find share -type f) | while read -r file; do
            put 644 "$stage/$file" "$dest$prefix/$(dirname "$file")"
        done
    fi
}

uninstall_all() {
    dest=${DESTDIR:-}
    for name in pagewise pagewise_prefixed; do
        rm -f "$dest$libdir/lib$name.a" "$dest$libdir/lib$name.so" "$dest$libdir/lib$name.so.$abi" \
            "$dest$libdir/lib$name.so.$version"
    done
    rm -f "$dest$libdir/pkgconfig/pagewise.pc" "$dest$libdir/pkgconfig/pagewise-prefixed.pc" \
        "$dest$prefix/include/pagewise.h" "$dest$prefix/bin/pagewise" \
        "$dest$prefix"/share/man/man1/pagewise.1 "$dest$prefix"/share/man/man1/pagewise-*.1 \
        "$dest$prefix/share/bash-completion/completions/pagewise" \
        "$dest$prefix/share/zsh/site-functions/_pagewise" \
        "$dest$prefix/share/fish/vendor_completions.d/pagewise.fish"
}

case $command in
    build) build ;;
    install) install_all ;;
    uninstall) uninstall_all ;;
    -h | --help | help) usage ;;
    *) fail "'$command' is unknown; ./install.sh --help" ;;
esac
