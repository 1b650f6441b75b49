#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Build a dynamic module for one nginx binary.
#
# usage: build-module.sh [ADDON [DIRECTORY [LOAD_FIRST]]]
#
# ADDON       folder of the addon's config; default: this repository
# DIRECTORY   where the .so goes; default: build/
# LOAD_FIRST  a module that has to be loaded before it, to test that it loads
#
# NGINX_BIN   the binary (make NGINX=); default: the nginx that the
#             distribution installed
# NGINX_SRC   that nginx's source; default: the package nginx-dev, or what
#             the distribution's source package holds
# CC, JOBS, V as usual (V=1 shows all output)

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"

addon=$(CDPATH='' cd -- "${1:-$top}" && pwd -P)
out=${2:-$build}
first=${3:-}

mkdir -p "$out"
out=$(CDPATH='' cd -- "$out" && pwd -P)
[ -z "$first" ] || first=$(realpath "$first")

dev=/usr/share/nginx/src
warnings='-Wall -Wextra -Wno-unused-parameter -Werror'
warnings="$warnings -Wshadow -Wstrict-prototypes -Wvla"
warnings="$warnings -Wdeclaration-after-statement -Wmissing-prototypes"

if [ "$addon" = "$top" ] && [ -z "${SENDFILE_MRUBY:-}" ]; then
    "$top/tools/mruby.sh"
fi

lock_build


# The nginx.

if [ -n "${NGINX_BIN:-}" ]; then
    nginx=$NGINX_BIN
elif [ -x /usr/sbin/nginx ]; then
    nginx=/usr/sbin/nginx
else
    nginx=$(command -v nginx) \
        || die "no nginx is installed; say which one with NGINX=/path/to/nginx"
fi

[ -x "$nginx" ] || die "NGINX=$nginx is not an executable file"
nginx=$(realpath "$nginx")

version=$(nginx_version "$nginx")
[ -n "$version" ] || die "$nginx -v does not print an nginx version"


# Its source.

if [ -n "${NGINX_SRC:-}" ]; then

    src=$(CDPATH='' cd -- "$NGINX_SRC" && pwd -P) \
        || die "NGINX_SRC=$NGINX_SRC is not a directory"

elif ! dpkg-query -S "$nginx" > /dev/null 2>&1; then

    die "$nginx is no package's file, so its source is not known: add" \
        "NGINX_SRC=/path/to/nginx-$version, the tree it was built from"

elif [ -f $dev/src/core/nginx.h ]; then

    src=$dev

else
    # before nginx 1.22 there was no package with the headers
    "$top/tools/nginx-src.sh" distribution
    src=$build/nginx-distribution/src
fi

if [ ! -f "$src/src/core/nginx.h" ] || [ ! -f "$src/auto/module" ]; then
    die "$src is not nginx's source: no src/core/nginx.h or auto/module"
fi

found=$(source_version "$src")

if [ "$found" != "$version" ]; then
    die "$nginx is version $version, but $src is the source of $found; a" \
        "dynamic module loads only into the version it was built for: give" \
        "the source of $version (NGINX_SRC=), or that source's nginx" \
        "(NGINX=), or bring the packages nginx and nginx-dev to one version"
fi


# Its configure arguments, but for what other people's modules add: those
# are not here, dynamic ones change nothing, and whether a static one did is
# seen when the signatures are compared.

cc_opt=
ld_opt=

arguments=$("$nginx" -V 2>&1 | sed -n 's/^configure arguments: *//p' \
    | xargs -n 1 printf '%s\n')

set --

while IFS= read -r argument; do
    case $argument in
        --with-cc-opt=*)        cc_opt=${argument#*=} ;;
        --with-ld-opt=*)        ld_opt=${argument#*=} ;;
        --with-cc=*)            ;;
        --add-module=*)         ;;
        --add-dynamic-module=*) ;;
        --builddir=*)           ;;
        --with-*=dynamic)       ;;
        '')                     ;;
        *)                      set -- "$@" "$argument" ;;
    esac
done << END
$arguments
END

set -- "$@" \
    "--with-cc=${CC:-cc}" \
    "--with-cc-opt=$cc_opt" \
    "--with-ld-opt=$ld_opt" \
    "--add-dynamic-module=$addon"


# Configure, if anything that configure looks at has changed.  nginx's
# configure writes a Makefile into its working directory, so that somebody
# else's source is used through a tree of links.

if [ "$out" = "$build" ]; then
    name=module
else
    name=$(printf '%s' "${out#"$build/"}" | tr / -)
fi
objs=$build/obj/$name

case $src in
    "$dev" | "$build"/*)
        tree=$src
        ;;
    *)
        tree=$objs/source
        ;;
esac

print=$( {
    "$nginx" -V 2>&1
    printf '%s\n' "$nginx" "$src" "$warnings" "$@"
    dpkg-query -W -f '${Version}\n' nginx-dev 2> /dev/null || true
    fingerprint_sources "$addon"
} | sha256sum)

if [ "$print" != "$(cat "$objs/.configured" 2> /dev/null)" ]; then
    rm -rf "$objs"
    mkdir -p "$objs"

    if [ "$tree" != "$src" ]; then
        cp -rs "$src" "$tree"
        rm -f "$tree/Makefile"
    fi

    say "configuring $out/*.so for $nginx ($version)"
    (
        cd "$tree"
        quiet "$objs/configure.log" "$(source_configure .)" "$@" \
            "--builddir=$objs"
    )

    # The signature is known before anything is built.
    theirs=$(signature "$nginx")
    printf '#include <ngx_config.h>\n#include <ngx_core.h>\n%s\n' \
        'const char  s[] = NGX_MODULE_SIGNATURE;' > "$objs/signature.c"

    if [ -n "$theirs" ] && ${CC:-cc} -c -o "$objs/signature.o" \
        -I "$src/src/core" -I "$src/src/event" -I "$src/src/event/quic" \
        -I "$src/src/event/modules" -I "$src/src/os/unix" -I "$objs" \
        "$objs/signature.c" 2> "$objs/signature.log" \
        && [ "$theirs" != "$(signature "$objs/signature.o")" ]
    then
        die "a module for $nginx cannot be built from $src: it was" \
            "configured in another way than its \`nginx -V\` leads to" \
            "(signature $theirs, module $(signature "$objs/signature.o"));" \
            "point NGINX_SRC= to the very source $nginx was built from"
    fi

    # -Wall, -Wextra and -Werror are nginx's defaults already.  Not by
    # --with-cc-opt: configure's tests would fail on warnings, and the module
    # would be built for an nginx with other features.
    printf 'CFLAGS += %s\n' "$warnings" >> "$objs/Makefile"

    printf '%s\n' "$print" > "$objs/.configured"
fi


# Build.

if ! make -q -C "$tree" -f "$objs/Makefile" modules > /dev/null 2>&1; then
    rm -f "$objs/.checked"
    say "building $out/*.so"
    make -s -j "$jobs" -C "$tree" -f "$objs/Makefile" modules > /dev/null
fi


# Say how it is compiled: a test builds one file in another way, and clangd
# looks into build/.

database=$build/compile_commands.json

if [ "$print" != "$(cat "$objs/.listed" 2> /dev/null)" ] \
    || [ ! -e "$objs/tree" ] || [ ! -f "$database" ]
then
    ln -sfn "$tree" "$objs/tree"
    make -s -n -B -C "$tree" -f "$objs/Makefile" modules > "$objs/commands"

    if [ "$objs" = "$build/obj/module" ] && [ "$addon" = "$top" ]; then
        "${PYTHON:-python3}" "$top/tools/compile_commands.py" "$tree" \
            < "$objs/commands" > "$database.new"
        mv "$database.new" "$database"
    fi
    printf '%s\n' "$print" > "$objs/.listed"
fi


# Check that this nginx takes it, before anybody restarts a server on it.

built=
for so in "$objs"/*.so; do
    [ -f "$so" ] || die "$addon/config names no module to build"
    built="$built $(basename -- "$so")"
done

if [ ! -f "$objs/.checked" ]; then
    : > "$objs/load.conf"
    if [ -n "$first" ]; then
        printf 'load_module "%s";\n' "$first" >> "$objs/load.conf"
    fi

    for so in "$objs"/*.so; do
        theirs=$(signature "$nginx")
        ours=$(signature "$so")

        if [ -n "$theirs" ] && [ "$theirs" != "$ours" ]; then
            die "$nginx would refuse $so, since $nginx was configured in" \
                "another way than its \`nginx -V\` leads to with the source" \
                "$src (signature $theirs, module $ours); point NGINX_SRC= to" \
                "the very source $nginx was built from"
        fi
        printf 'load_module "%s";\n' "$so" >> "$objs/load.conf"
    done
    printf 'events { }\n' >> "$objs/load.conf"

    if ! "$nginx" -t -q -p "$objs" -c "$objs/load.conf" \
        -g "error_log stderr; pid $objs/load.pid;" 2> "$objs/load.log"
    then
        cat "$objs/load.log" >&2
        die "$nginx does not load the module"
    fi
    rm -f "$objs/load.pid"
fi

for so in $built; do
    install_file "$objs/$so" "$out/$so"

    if [ -f "$objs/.checked" ]; then
        say "$out/$so is up to date ($nginx, $version)"
    else
        say "built $out/$so ($nginx, $version)"
    fi
done

: > "$objs/.checked"
