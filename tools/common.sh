# shellcheck shell=sh
#
# Copyright (C) the ngx_sendfile authors
#
# What the scripts here share; sourced first, after `set -eu`.

# shellcheck disable=SC2034  # used by the scripts that source this
top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
build=$top/build

LC_ALL=C.UTF-8
export LC_ALL

# a make above us must not hand its flags to nginx's own makefiles
unset MAKEFLAGS MAKELEVEL MFLAGS

# nginx takes this for a list of sockets
unset NGINX

jobs=${JOBS:-$(nproc 2>/dev/null || echo 1)}


say() {
    printf '%s\n' "$*"
}


die() {
    printf '%s: error: %s\n' "${0##*/}" "$*" >&2
    exit 1
}


# nginx's configure and make split paths at spaces

case $top in
    *[!A-Za-z0-9/._+@%:,~=-]*)
        die "nginx cannot be built in a path with spaces or special" \
            "characters: $top; clone to another place"
        ;;
esac


# quiet LOG COMMAND...: run with the output in LOG, shown only on failure
# (or always, with V=1)

quiet() {
    quiet_log=$1
    shift

    if [ "${V:-0}" = 1 ]; then
        "$@"
        return
    fi

    if ! "$@" > "$quiet_log" 2>&1; then
        tail -n 25 "$quiet_log" >&2
        die "$1 failed (all of it in $quiet_log)"
    fi
}


# crate_folder NAME VERSION: where cargo has unpacked a crate, on stdout.  Only
# its files are wanted: no Rust is compiled.

crate_folder() {
    mkdir -p "$build/crate/src"
    : > "$build/crate/src/lib.rs"

    cat > "$build/crate/Cargo.toml" << END
[package]
name = "source-of-$1"
version = "0.0.0"
edition = "2021"
publish = false

[dependencies]
$1 = "$2"

[workspace]
END

    rm -f "$build/crate/Cargo.lock"

    # without the filter, what only Windows needs is downloaded too
    host=$(rustc -vV | sed -n 's/^host: //p')

    cargo metadata --manifest-path "$build/crate/Cargo.toml" \
        --format-version 1 --filter-platform "$host" \
        > "$build/crate/metadata.json"

    "${PYTHON:-python3}" - "$build/crate/metadata.json" "$1" << 'END'
import json
import os
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    packages = json.load(file)["packages"]

for package in packages:
    if package["name"] == sys.argv[2]:
        print(os.path.dirname(package["manifest_path"]))
        break
else:
    sys.exit(f"cargo metadata names no package {sys.argv[2]}")
END
}


# one build at a time in this tree

lock_build() {
    mkdir -p "$build"

    if command -v flock > /dev/null; then
        exec 9> "$build/.lock"
        if ! flock -n 9; then
            say "waiting for another build in $build"
            flock 9
        fi
    fi
}


# install_file FROM TO: replace TO at once, and only if it differs; a running
# nginx may have the old file mapped

install_file() {
    if ! cmp -s "$1" "$2"; then
        mkdir -p "$(dirname -- "$2")"
        cp -- "$1" "$2.new$$"
        mv -f -- "$2.new$$" "$2"
    fi
}


# nginx_version BINARY: 1.22.1

nginx_version() {
    "$1" -v 2>&1 | sed -n 's|^nginx version: [^/]*/\([0-9.]*\).*|\1|p'
}


# source_version DIR: the version of a source tree

source_version() {
    sed -n 's/^#define NGINX_VERSION  *"\([^"]*\)".*/\1/p' \
        "$1/src/core/nginx.h"
}


# source_configure DIR: the script's path from DIR; a release tarball has
# ./configure, a checkout auto/configure

source_configure() {
    if [ -f "$1/configure" ]; then
        echo ./configure
    else
        echo ./auto/configure
    fi
}


# signature FILE: what nginx compares before it takes a dynamic module

signature() {
    grep -aoE '[0-9]+,[0-9]+,[0-9]+,[01]{30,}' "$1" | sort -u | head -n 1
}


# fingerprint_sources ADDON...: changes when configure has to run again

fingerprint_sources() {
    for fp_addon in "$@"; do
        cat "$fp_addon/config"
        cat "$fp_addon/config.make" 2> /dev/null || true
        fp_files=$fp_addon
        [ "$fp_addon" != "$top" ] || fp_files=$top/src
        find "$fp_files" -name '*.[ch]' | sort
    done
    cat "${SENDFILE_MRUBY:-$build/mruby/plain}/.built" 2> /dev/null || true
    sed -n 's/^#define SQLITE_VERSION  *//p' /usr/include/sqlite3.h \
        2> /dev/null || true
    ${CC:-cc} --version | head -n 1
}


# debian_mirror NAME: where this machine's apt has Debian's archive NAME from, which
# is debian or debian-security; nothing if its sources name none

debian_mirror() {
    # shellcheck disable=SC2016  # apt's own variables
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
        2> /dev/null | sed 's,/$,,' | grep "/$1\$" | head -n 1
}
