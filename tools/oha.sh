#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Build oha, the load generator for fixed rates, into build/oha/bin/, unless it
# is there or installed.  Takes some minutes, once.
#
# usage: oha.sh

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"

# the newest one that a Rust of 2025 (1.85) compiles
version=1.12.0
root=$build/oha

current() {
    [ "$version" = "$("$1" --version 2> /dev/null | sed 's/^oha //')" ]
}

if current "$root/bin/oha" || command -v oha > /dev/null; then
    exit 0
fi

command -v cargo > /dev/null || die "oha is built by cargo, which is missing"

mkdir -p "$root"
say "building oha $version, which takes some minutes"

# its Cargo.lock decides about everything that is compiled
CARGO_TARGET_DIR=$root/target quiet "$root/build.log" \
    cargo install --locked --version "=$version" --root "$root" oha

rm -rf "$root/target"
