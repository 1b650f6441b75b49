#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Install build/ngx_http_sendfile_module.so, and the modules for SQLite, Ruby and
# signatures where they were built, into their nginx.  With a modules-available
# folder, as Debian has it, they are also switched on as the modules of Debian's
# packages are.  If anything fails, or that nginx then refuses its configuration,
# all is as it was.
#
# DESTDIR   a root to install below, for packages
# NGINX_BIN as for build-module.sh

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"

nginx=${NGINX_BIN:-/usr/sbin/nginx}
destdir=${DESTDIR:-}
all="http-sendfile http-sendfile-sqlite http-sendfile-mruby http-sendfile-signed"


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

# What is replaced is kept until all is well.

old=$build/install-old
rm -rf "$old"
mkdir -p "$old"
: > "$old/paths"


# keep PATH: before it is written

keep() {
    printf '%s\n' "$1" >> "$old/paths"
    keep_to=$old/$(wc -l < "$old/paths")
    if [ -e "$1" ] || [ -L "$1" ]; then
        cp -P -p -- "$1" "$keep_to" || die "cannot keep $1: no space in $old?"
    fi
}


# shellcheck disable=SC2317  # called by the trap
undo() {
    status=$?
    trap - EXIT
    if [ "$status" -ne 0 ]; then
        undo_number=0
        while IFS= read -r undo_path; do
            undo_number=$((undo_number + 1))
            rm -f -- "$undo_path" "$undo_path.new$$" || true
            if [ -e "$old/$undo_number" ] || [ -L "$old/$undo_number" ]; then
                mv -f -- "$old/$undo_number" "$undo_path"
            fi
        done < "$old/paths"
        say "nothing is installed: all files are as they were" >&2
    fi
    rm -rf "$old"
    exit "$status"
}


trap undo EXIT
trap 'exit 1' HUP INT TERM

lines=

for name in $all; do
    so=ngx_$(printf '%s' "$name" | tr - _)_module.so

    [ -f "$build/$so" ] || continue

    keep "$destdir$modules/$so"
    install_file "$build/$so" "$destdir$modules/$so"
    chmod 644 "$destdir$modules/$so"
    say "installed $destdir$modules/$so"

    lines="$lines load_module $modules/$so;"

    [ -d "$conf_dir/modules-enabled" ] || continue

    available=/usr/share/nginx/modules-available
    enabled=$conf_dir/modules-enabled/50-mod-$name.conf

    mkdir -p "$destdir$available" "$destdir$conf_dir/modules-enabled"

    keep "$destdir$available/mod-$name.conf"
    keep "$destdir$enabled"

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

if [ -z "$destdir" ] && [ -f "$conf" ] \
    && ! "$nginx" -t -q 2> "$build/install.log"
then
    cat "$build/install.log" >&2
    die "$nginx refuses its configuration with the new files, see above: mend" \
        "that, then make install again"
fi

if [ -d "$conf_dir/modules-enabled" ]; then
    next="nginx loads them when it starts anew"
else
    next="write at the top of $conf:$lines"
fi

say "next: $next; then set http_sendfile in a location (docs/directives.md)," \
    "check with \`nginx -t\` and restart nginx"
