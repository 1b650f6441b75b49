#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Build the modules with gcc and clang for each nginx that can be had, run a
# part of the tests over HTTP with each, and write what was found into the
# table of docs/building.md.
#
# VERSIONS        instead of all of `nginx-src.sh list`; the table is then left
# COMPILERS       default: gcc clang
# NGINX_TARBALLS  see nginx-src.sh

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"

checks="test_basic.py test_fallback.py test_memcached_basic.py"
compilers=${COMPILERS:-gcc clang}
out=$build/matrix
doc=$top/docs/building.md

mkdir -p "$out"

# mruby is built once, for both
"$top/tools/mruby.sh"
SENDFILE_MRUBY=$build/mruby/plain
export SENDFILE_MRUBY


# check VERSION COMPILER: prints the cell of the table

check() {
    log=$out/$1-$2.log
    so=$out/$1-$2/ngx_http_sendfile_module.so

    if ! CC=$2 NGINX_BIN=$build/nginx-$1/nginx NGINX_SRC=$build/nginx-src/$1 \
        "$top/tools/build-module.sh" "$top" "$out/$1-$2" > "$log" 2>&1
    then
        echo "not built"
        return
    fi

    # shellcheck disable=SC2086  # a list
    (
        cd "$top/test/http"
        NGX_FLAVOUR=debian NGX_BINARY=$build/nginx-$1/nginx NGX_MODULE=$so \
            "$build/venv/bin/python" -m pytest -q -n 2 -p no:cacheprovider \
            $checks
    ) >> "$log" 2>&1 || true

    tail -n 1 "$log" | grep -oE '[0-9]+ (passed|failed|errors?|skipped)' \
        | tr '\n' ',' | sed 's/,$//; s/,/, /g' | grep . || echo "not run"
}


versions=${VERSIONS:-$("$top/tools/nginx-src.sh" list)}
rows=$out/rows.new
: > "$rows"

for version in $versions; do
    if ! "$top/tools/nginx-src.sh" "$version" > "$out/$version.log" 2>&1; then
        say "nginx $version: no source, see $out/$version.log"
        printf '| %s | listed, but the archive has no source of it |\n' \
            "$version" >> "$rows"
        continue
    fi
    if ! "$top/tools/build-nginx.sh" "$version" > "$out/$version.log" 2>&1; then
        say "nginx $version: not built, see $out/$version.log"
        printf '| %s | nginx itself is not built here |\n' "$version" >> "$rows"
        continue
    fi
    row="| $version |"
    for compiler in $compilers; do
        cell=$(check "$version" "$compiler")
        say "nginx $version, $compiler: $cell"
        row="$row $cell |"
    done
    printf '%s\n' "$row" >> "$rows"
done

mv "$rows" "$out/rows"


# The table, between two comments.

if [ -z "${VERSIONS:-}" ] && [ -f "$doc" ]; then
    {
        sed '/<!-- matrix -->/q' "$doc"
        printf '\n%s:\n\n| nginx |' "$(date +%F), $(sed -n \
            's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)"
        for compiler in $compilers; do
            printf ' %s |' "$($compiler --version | head -n 1)"
        done
        printf '\n|---|'
        # shellcheck disable=SC2086  # a list
        printf '%.0s---|' $compilers
        echo
        cat "$out/rows"
        echo
        sed -n '/<!-- end of matrix -->/,$p' "$doc"
    } > "$out/doc"
    cp "$out/doc" "$doc"
fi

! grep -qE 'not built|not run|failed|error' "$out/rows" \
    || die "not all is well, see $out/"
