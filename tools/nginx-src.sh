#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Get a full nginx source tree.
#
# usage: nginx-src.sh stable | distribution | list | VERSION
#
# stable        nginx 1.28 to build/nginx-1.28/src: from the Cargo crate
#               nginx-src (only its files are used, no Rust is compiled); if
#               cargo cannot, the distribution's source, which it says loudly
# distribution  what the installed nginx was built from, patches included, to
#               build/nginx-distribution/src, by apt-get source with a
#               private list of sources: the system's are not touched
# VERSION       nginx.org's nginx of that version to build/nginx-src/VERSION:
#               from nginx-VERSION.tar.gz in the folder NGINX_TARBALLS=, by
#               default build/tarballs; or the upstream tarball that Debian's
#               archive has, and Ubuntu's with UBUNTU_MIRROR= and its keys
#               (ubuntu-keyring, of Debian 13); or the crate's
# list          the versions that can be had so, one a line

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"

crate=nginx-src
crate_version='=1.28.5'
series=1.28


usage() {
    echo "usage: $0 stable | distribution | list | VERSION" >&2
    exit 2
}


# take FROM TO: a tree at TO, complete or not at all

take() {
    rm -rf "$2.new"
    mkdir -p "$2.new"
    cp -R "$1"/. "$2.new"
    rm -rf "$2"
    mv "$2.new" "$2"
}


# the private apt: the system's archives with deb-src switched on

distribution() {
    dir=$build/nginx-distribution

    # the package's own version, so that a security update asks anew
    package=$(dpkg-query -S "$(realpath /usr/sbin/nginx 2> /dev/null)" \
        2> /dev/null | sed 's/[:,].*//') || package=
    if [ -n "$package" ]; then
        # shellcheck disable=SC2016
        want=$(dpkg-query -W -f '${source:Version}' "$package")
    else
        want=$(apt-cache show --no-all-versions nginx \
            | sed -n 's/^Version: //p')
    fi

    if [ -f "$dir/src/src/core/nginx.h" ] \
        && [ "$(cat "$dir/version" 2> /dev/null)" = "$want" ]
    then
        return
    fi

    rm -rf "$dir"
    mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial" \
        "$dir/apt/sources.list.d" "$dir/unpack"
    : > "$dir/apt/sources.list"

    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -f "$list" ] && sed -n -e 's/^deb-src /&/p' -e 's/^deb /deb-src /p' \
            "$list" >> "$dir/apt/sources.list"
    done
    for list in /etc/apt/sources.list.d/*.sources; do
        [ -f "$list" ] && sed -e 's/^Types:.*/Types: deb-src/' \
            "$list" > "$dir/apt/sources.list.d/$(basename "$list")"
    done
    sort -u -o "$dir/apt/sources.list" "$dir/apt/sources.list"

    (
        cd "$dir/unpack"

        set -- \
            -o "Dir::Etc::SourceList=$dir/apt/sources.list" \
            -o "Dir::Etc::SourceParts=$dir/apt/sources.list.d" \
            -o "Dir::State::Lists=$dir/apt/lists" \
            -o "Dir::Cache=$dir/apt/cache" \
            -o "APT::Sandbox::User=root" \
            -o "APT::Get::List-Cleanup=false"

        quiet "$dir/apt/update.log" apt-get "$@" update

        # a mirror may have a package but not its source (yet): then that of
        # another revision of the same nginx, if it has that
        upstream=${want%-*}
        for version in "$want" $(apt-cache "$@" showsrc nginx \
            | sed -n "s/^Version: \($upstream-.*\)/\1/p" \
            | grep -vxF "$want" | sort -Vru)
        do
            if apt-get "$@" --only-source source "nginx=$version" \
                > "$dir/apt/source.log" 2>&1
            then
                say "got the source of nginx $version"
                exit 0
            fi
            say "the archive has no source of nginx $version"
        done
        tail -n 20 "$dir/apt/source.log" >&2
        exit 1
    ) || die "cannot get nginx's source package; where nginx-dev is to be" \
        "had, install that; or give NGINX= and NGINX_SRC="

    for unpacked in "$dir/unpack"/nginx-*; do
        if [ -f "$unpacked/src/core/nginx.h" ]; then
            take "$unpacked" "$dir/src"
            printf '%s\n' "$want" > "$dir/version"
            rm -rf "$dir/unpack" "$dir/apt"
            return
        fi
    done

    die "the source package holds no nginx source, see $dir"
}


# is_series DIR: a source tree of the wanted nginx

is_series() {
    [ -f "$1/src/core/nginx.h" ] \
        && [ "$(source_version "$1" | cut -d . -f 1,2)" = $series ]
}


stable() {
    tree=$build/nginx-$series/src

    if is_series "$tree"; then
        return
    fi

    if ! command -v cargo > /dev/null; then
        why="there is no cargo"
    elif ! folder=$(crate_folder $crate $crate_version \
        2> "$build/crate.log"); then
        why=$(tail -n 3 "$build/crate.log")
    elif ! is_series "$folder/nginx"; then
        why="the crate holds no nginx $series"
    else
        mkdir -p "$build/nginx-$series"
        take "$folder/nginx" "$tree"
        rm -rf "$build/crate" "$build/crate.log"
        say "nginx $(source_version "$tree") is in $tree"
        return
    fi

    if [ ! -f "$tree/src/core/nginx.h" ]; then
        distribution
        mkdir -p "$build/nginx-$series"
        take "$build/nginx-distribution/src" "$tree"
    fi

    cat >&2 << END

******************************************************************************
  WARNING: nginx $series could not be had from the crate $crate:
  $why
  Instead $tree holds the distribution's
  nginx $(source_version "$tree"), so nginx $series IS NOT TESTED here.
******************************************************************************

END
}


# What the archives have, by an apt that has nothing of the system's but its
# keys; asked anew once a day, and for other mirrors.

archive() {
    dir=$build/nginx-src/apt
    keys=/usr/share/keyrings
    mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"

    # of the system's apt, so before there is one of our own
    debian=${debian:-${DEBIAN_MIRROR:-$(debian_mirror debian)}}
    if [ -z "$debian" ]; then
        say "apt's sources name no mirror of Debian, which has nginx's" \
            "sources: write DEBIAN_MIRROR=" >&2
        return 1
    fi

    APT_CONFIG=$dir/apt.conf
    export APT_CONFIG

    cat > "$APT_CONFIG" << END
Dir::Etc::SourceList "$dir/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$dir/lists";
Dir::Cache "$dir/cache";
APT::Sandbox::User "root";
END
    {
        for suite in bullseye bookworm trixie sid; do
            echo "deb-src [signed-by=$keys/debian-archive-keyring.gpg]" \
                "$debian $suite main"
        done
        for suite in jammy noble; do
            [ -n "${UBUNTU_MIRROR:-}" ] || break
            echo "deb-src [signed-by=$keys/ubuntu-archive-keyring.gpg]" \
                "$UBUNTU_MIRROR $suite main"
        done
    } > "$dir/sources.list"

    if [ -n "$(find "$dir/updated" -mtime -1 2> /dev/null)" ] \
        && cmp -s "$dir/sources.list" "$dir/updated"
    then
        return 0
    fi

    if ! apt-get update > "$dir/update.log" 2>&1; then
        say "the archives with nginx's sources cannot be reached: without a" \
            "network put a mirror into DEBIAN_MIRROR= (all of it in" \
            "$dir/update.log)" >&2
        unset APT_CONFIG
        return 1
    fi
    cp "$dir/sources.list" "$dir/updated"
}


tarballs=${NGINX_TARBALLS:-$build/tarballs}


list() {
    {
        find "$tarballs" -name 'nginx-*.tar.gz' 2> /dev/null \
            | sed 's|.*/nginx-||; s|\.tar\.gz$||'
        if archive; then
            apt-cache showsrc nginx | sed -n 's/^Version: \(.*\)-.*/\1/p'
        fi
        (stable) > /dev/null 2>&1 || true
        source_version "$build/nginx-$series/src" 2> /dev/null || true
    } | sort -uV
}


vanilla() {
    tree=$build/nginx-src/$1

    if [ -f "$tree/src/core/nginx.h" ]; then
        return
    fi

    work=$build/nginx-src/work
    rm -rf "$work"
    mkdir -p "$work"

    if [ -f "$tarballs/nginx-$1.tar.gz" ]; then
        tar -C "$work" -xf "$tarballs/nginx-$1.tar.gz"

    elif archive && revisions=$(apt-cache showsrc nginx \
        | sed -n "s/^Version: \($1-.*\)/\1/p" | sort -Vru | grep .)
    then
        # a mirror may list what it has no more: the tarball alone will do,
        # which each revision has
        for revision in $revisions; do
            (cd "$work" && apt-get --only-source --download-only source \
                "nginx=$revision") > "$build/nginx-src/source.log" 2>&1 || true
            orig=$(find "$work" -name 'nginx_*.orig.tar.*z')
            [ -z "$orig" ] || break
        done
        [ -z "$orig" ] || tar -C "$work" -xf "$orig"

    else
        (stable) > /dev/null 2>&1 || true
        if [ "$(source_version "$build/nginx-$series/src" 2> /dev/null)" \
            = "$1" ]
        then
            mkdir "$work/nginx"
            cp -R "$build/nginx-$series/src/." "$work/nginx"
        fi
    fi

    for unpacked in "$work"/nginx*/; do
        if [ -f "$unpacked/src/core/nginx.h" ] \
            && [ "$(source_version "$unpacked")" = "$1" ]
        then
            take "$unpacked" "$tree"
            rm -rf "$work"
            say "nginx $1 is in $tree"
            return
        fi
    done

    die "the source of nginx $1 cannot be had: put nginx-$1.tar.gz of" \
        "nginx.org into $tarballs, or name its folder in NGINX_TARBALLS=;" \
        "without that there are: $(list | grep -vxF "$1" | tr '\n' ' ')"
}


[ $# -eq 1 ] || usage

mkdir -p "$build"

case $1 in
    stable | distribution | list) "$1" ;;
    [0-9]*.[0-9]*.[0-9]*)  vanilla "$1" ;;
    *)                     usage ;;
esac
