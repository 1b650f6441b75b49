#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Build nginx 1.28 from source, for the tests and benchmarks, or another.
#
# usage: build-nginx.sh asan | static | dynamic | VERSION
#
# asan     build/asan/nginx: our modules linked in, and the test module when
#          it is there; AddressSanitizer and UndefinedBehaviorSanitizer, and
#          every allocation from a pool a malloc of its own, or the pools
#          would hide use after free
# static   build/static/nginx: the same modules linked in, -O2
# dynamic  build/nginx-1.28/nginx: none of ours, -O2; the modules for it,
#          build/nginx-1.28/*.so, are made with build-module.sh
# VERSION  build/nginx-VERSION/nginx, the same of another version, such as
#          1.24.0: see nginx-src.sh
#
# CC (of VERSION), JOBS, V as usual (V=1 shows all output)

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"

flavour=${1:-}
out=$build/$flavour

set -- \
    --with-compat \
    --with-threads \
    --with-file-aio \
    --with-http_addition_module \
    --with-http_auth_request_module \
    --with-http_dav_module \
    --with-http_gunzip_module \
    --with-http_gzip_static_module \
    --with-http_mp4_module \
    --with-http_realip_module \
    --with-http_secure_link_module \
    --with-http_slice_module \
    --with-http_ssl_module \
    --with-http_stub_status_module \
    --with-http_sub_module \
    --with-http_v2_module

case $flavour in
    asan)
        flags="-O1 -g -fno-omit-frame-pointer"
        flags="$flags -DNGX_DEBUG_PALLOC=1"
        set -- "$@" --with-debug \
            "--with-cc=$top/tools/cc-sanitize.sh" \
            "--with-cc-opt=$flags" "--add-module=$top"
        ;;
    static)
        set -- "$@" "--with-cc-opt=-O2 -g" "--add-module=$top"
        ;;
    dynamic)
        out=$build/nginx-1.28
        set -- "$@" "--with-cc-opt=-O2 -g"
        ;;
    [0-9]*.[0-9]*.[0-9]*)
        out=$build/nginx-$flavour
        # today's compilers and libraries warn of things in old nginxes, which
        # is no error, as it is in our modules; and they have no sys_nerr: nginx
        # 1.18 then knows but 41 errors by name
        set -- "$@" "--with-cc=${CC:-cc}" \
            "--with-cc-opt=-O2 -g -Wno-error -DNGX_SYS_NERR=134"
        ;;
    *)
        echo "usage: $0 asan | static | dynamic | VERSION" >&2
        exit 2
        ;;
esac

addons=

if [ "$flavour" = asan ] || [ "$flavour" = static ]; then
    addons=$top

    variant=plain
    [ "$flavour" != asan ] || variant=asan
    "$top/tools/mruby.sh" $variant
    SENDFILE_MRUBY=$build/mruby/$variant
    export SENDFILE_MRUBY

    if [ -f "$top/test/module/config" ]; then
        addons="$addons $top/test/module"
        set -- "$@" "--add-module=$top/test/module"
    fi
fi

lock_build

case $flavour in
    [0-9]*)
        "$top/tools/nginx-src.sh" "$flavour"
        src=$build/nginx-src/$flavour
        ;;
    *)
        "$top/tools/nginx-src.sh" stable
        src=$build/nginx-1.28/src
        ;;
esac

objs=$build/obj/$flavour

# paths that are not given are below nginx -p
set -- "$@" "--prefix=$out" --error-log-path=stderr

# configure runs what it compiles, and its test programs leak
ASAN_OPTIONS=detect_leaks=0
export ASAN_OPTIONS

print=$( {
    printf '%s\n' "$@"
    source_version "$src"
    cat "$top/tools/cc-sanitize.sh"
    # shellcheck disable=SC2086  # a list; the paths hold no spaces
    fingerprint_sources $addons
} | sha256sum)

if [ "$print" != "$(cat "$objs/.configured" 2> /dev/null)" ]; then
    rm -rf "$objs"
    mkdir -p "$objs"

    say "configuring nginx $(source_version "$src"), $flavour"
    (
        cd "$src"
        quiet "$objs/configure.log" "$(source_configure .)" "$@" \
            "--builddir=$objs"
    )
    printf '%s\n' "$print" > "$objs/.configured"
fi

if make -q -C "$src" -f "$objs/Makefile" binary > /dev/null 2>&1 \
    && cmp -s "$objs/nginx" "$out/nginx"
then
    say "$out/nginx is up to date"
else
    say "building nginx, $flavour"
    quiet "$objs/make.log" make -s -j "$jobs" -C "$src" -f "$objs/Makefile" \
        binary
    install_file "$objs/nginx" "$out/nginx"
    say "built $out/nginx ($(source_version "$src"), $flavour)"
fi
