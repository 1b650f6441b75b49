#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Build mruby for ngx_http_sendfile_mruby_module.so.
#
# usage: mruby.sh [plain | asan | fetch]
#
# plain   build/mruby/plain/: include/, lib/libmruby.a
# asan    build/mruby/asan/: the same with AddressSanitizer
# fetch   build/mruby/crate/: the source alone, for a source package
#
# The source is that of mruby 3.2, as the Cargo crate mruby3-sys carries it
# (only its files are used, no Rust is compiled).  Where it cannot be had, this
# says so and leaves nothing, and the config script takes the distribution's
# libmruby.
#
# MRUBY_CFLAGS   more flags for the compiler, as of a distribution's packages
# JOBS, V as usual (V=1 shows all output)

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"

crate=mruby3-sys
crate_version='=3.2.0'

variant=${1:-plain}

case $variant in
    plain) flags=-O2 ;;
    fetch) flags= ;;
    asan)  flags="-O1 -fno-omit-frame-pointer -fsanitize=address" ;;
    *)
        echo "usage: $0 [plain | asan | fetch]" >&2
        exit 2
        ;;
esac

flags="$flags${MRUBY_CFLAGS:+ $MRUBY_CFLAGS}"

dir=$build/mruby
out=$dir/$variant


missing() {
    [ "$variant" != fetch ] || die "no source of mruby, since $*; with a" \
        "network and cargo (Debian: cargo-web) it is downloaded once"
    rm -rf "$out"
    say "no own mruby, since $*: the module for Ruby is built with the" \
        "distribution's libmruby (package libmruby-dev), where there is one," \
        "and cannot limit instructions"
    exit 0
}


# what cargo has unpacked is kept: the next variant needs no network

source_tree() {
    if [ "$(cat "$dir/crate/.version" 2> /dev/null)" = "$crate_version" ]; then
        return
    fi

    command -v cargo > /dev/null || missing "there is no cargo"

    folder=$(crate_folder $crate $crate_version 2> "$dir/crate.log") \
        || missing "the crate $crate cannot be had" \
            "($(tail -n 1 "$dir/crate.log"))"

    rm -rf "$dir/crate"
    cp -R "$folder/mruby" "$dir/crate"
    printf '%s\n' "$crate_version" > "$dir/crate/.version"
}


unpack() {
    rm -rf "$dir/src"
    cp -R "$dir/crate" "$dir/src"

    ruby "$top/tools/mruby_source.rb" "$dir/src"

    # bison's output is in the archive
    touch "$dir/src/mrbgems/mruby-compiler/core/y.tab.c" \
        "$dir/src/mrbgems/mruby-compiler/core/lex.def"
}


lock_build
mkdir -p "$dir"

if [ "$variant" = fetch ]; then
    source_tree
    exit 0
fi

print=$( {
    printf '%s\n' "$crate_version" "$flags"
    cat "$0" "$top/tools/mruby.rb" "$top/tools/mruby_source.rb"
    ${CC:-cc} --version | head -n 1
} | sha256sum)

if [ "$print" = "$(cat "$out/.built" 2> /dev/null)" ]; then
    exit 0
fi

command -v ruby > /dev/null || missing "there is no ruby to build it with"

source_tree
unpack

say "building mruby, $variant"
rm -rf "$out" "$dir/obj"
(
    cd "$dir/src"

    # a file is written beside it
    cp "$top/tools/mruby.rb" config.rb

    MRUBY_CONFIG=$dir/src/config.rb
    MRUBY_BUILD_DIR=$dir/obj
    MRUBY_FLAGS=$flags
    export MRUBY_CONFIG MRUBY_BUILD_DIR MRUBY_FLAGS

    # mrbc, which is built to be run, leaves its memory to the system
    ASAN_OPTIONS=detect_leaks=0
    export ASAN_OPTIONS

    quiet "$dir/build-$variant.log" ruby ./minirake "-j$jobs"
)

mkdir -p "$out.new/lib"
cp -R "$dir/src/include" "$out.new/include"
cp -R "$dir/obj/host/include/." "$out.new/include"
cp "$dir/obj/host/lib/libmruby.a" "$out.new/lib"
cp "$dir/src/LICENSE" "$out.new"
printf '%s\n' "$print" > "$out.new/.built"
mv "$out.new" "$out"
rm -rf "$dir/obj" "$dir/src" "$dir/build-$variant.log"
