#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Install build/ngx_http_sendfile_module.so, and the module for Ruby where it
# was built, into their nginx.  With a modules-available folder, as Debian has
# it, they are also switched on as the modules of Debian's packages are.
#
# DESTDIR   a root to install below, for packages
# NGINX_BIN as for build-module.sh

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"

nginx=${NGINX_BIN:-/usr/sbin/nginx}
destdir=${DESTDIR:-}
all="http-sendfile http-sendfile-mruby"


# configured NAME: the value of nginx's configure argument --NAME=

configured() {
    "$nginx" -V 2>&1 | sed -n 's/^configure arguments: *//p' \
        | xargs -n 1 printf '%s\n' | sed -n "s/^--$1=//p" | tail -n 1
}


prefix=$(configured prefix)
prefix=${prefix:-/usr/local/nginx}

modules=$(configured modules-path)
modules=${modules:-$prefix/modules}
case $modules in /*) ;; *) modules=$prefix/$modules ;; esac

conf=$(configured conf-path)
conf=${conf:-$prefix/conf/nginx.conf}
case $conf in /*) ;; *) conf=$prefix/$conf ;; esac
conf_dir=$(dirname -- "$conf")

if ! mkdir -p "$destdir$modules" 2> /dev/null || [ ! -w "$destdir$modules" ]
then
    die "cannot write to $destdir$modules: run make install as root, or with" \
        "DESTDIR="
fi

lines=

for name in $all; do
    so=ngx_$(printf '%s' "$name" | tr - _)_module.so

    [ -f "$build/$so" ] || continue

    install_file "$build/$so" "$destdir$modules/$so"
    chmod 644 "$destdir$modules/$so"
    say "installed $destdir$modules/$so"

    lines="$lines load_module $modules/$so;"

    [ -d "$conf_dir/modules-enabled" ] || continue

    available=/usr/share/nginx/modules-available
    enabled=$conf_dir/modules-enabled/50-mod-$name.conf

    mkdir -p "$destdir$available" "$destdir$conf_dir/modules-enabled"

    # as Debian's own say it: below the prefix is a link to the modules
    path=$modules/$so
    if [ "$(realpath -m "$prefix/modules")" = "$(realpath -m "$modules")" ]; then
        path=modules/$so
    fi
    printf 'load_module %s;\n' "$path" \
        > "$destdir$available/mod-$name.conf"
    chmod 644 "$destdir$available/mod-$name.conf"
    ln -sfn "$available/mod-$name.conf" "$destdir$enabled"
    say "installed $destdir$enabled"
done

if [ -d "$conf_dir/modules-enabled" ]; then
    next="nginx loads them when it starts anew"
else
    next="write at the top of $conf:$lines"
fi

say "next: $next; then set http_sendfile in a location (docs/directives.md)," \
    "check with \`nginx -t\` and restart nginx"
