#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Build the modules for an nginx of a version that is not installed here, such
# as nginx.org's, into build/module-VERSION/.  They fit each nginx of that
# version that is built --with-compat, as nginx.org's are.
#
# NGINX_VERSION  such as 1.28.3; see tools/nginx-src.sh
# NGINX_BIN      (make NGINX=) the nginx, if it is at hand: whether version and
#                signature fit is said before anything is built
# CC, JOBS, V    as usual

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"

version=${NGINX_VERSION:-}
out=$build/module-$version

case $version in
    [0-9]*.[0-9]*.[0-9]*) ;;
    *)
        die "NGINX_VERSION=$version is no version of nginx: write that which" \
            "\`nginx -v\` prints, such as NGINX_VERSION=1.28.3"
        ;;
esac

if [ -n "${NGINX_BIN:-}" ]; then
    [ -x "$NGINX_BIN" ] || die "NGINX=$NGINX_BIN is not an executable file"
    found=$(nginx_version "$NGINX_BIN")

    [ "$found" = "$version" ] \
        || die "$NGINX_BIN is nginx ${found:-of no known version}, not" \
            "$version, and would refuse the module: make module" \
            "NGINX_VERSION=${found:-VERSION} NGINX=$NGINX_BIN"

    case $("$NGINX_BIN" -V 2>&1) in
        *--with-compat*) ;;
        *)
            say "$NGINX_BIN is not built --with-compat: the module will fit" \
                "nginxes with its very configure arguments, and no others"
            ;;
    esac
    "$top/tools/nginx-src.sh" "$version"
else
    "$top/tools/build-nginx.sh" "$version"
    NGINX_BIN=$build/nginx-$version/nginx
    export NGINX_BIN
fi

NGINX_SRC=$build/nginx-src/$version
export NGINX_SRC
"$top/tools/build-module.sh" "$top" "$out"

say "the module fits nginx $version with the signature $(signature \
    "$out/ngx_http_sendfile_module.so"); copy $out/*.so to its modules path," \
    "write load_module for each at the top of nginx.conf"
