# shellcheck shell=sh
#
# Copyright (C) the ngx_sendfile authors
#
# What the scripts that make packages share; sourced after common.sh.

# shellcheck disable=SC2034,SC2154  # of the scripts that source this, of common.sh
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' \
    "$top/cli/src/sendfilectl/__init__.py")

mirror=${DEBIAN_MIRROR:-$(debian_mirror debian)}
security=${DEBIAN_SECURITY:-$(debian_mirror debian-security)}

roots=$build/roots


# The time in all that is made: the release's, in debian/changelog.

if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(date -d "$(sed -n 's/^ -- .*>  //p' \
        "$top/debian/changelog" | head -n 1)" +%s)
fi
export SOURCE_DATE_EPOCH


# tar_same OUT.tar.gz DIR NAME: DIR/NAME, the same bytes each time

tar_same() {
    tar -C "$2" --sort=name --owner=0 --group=0 --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" --mode=u=rwX,go=rX --format=gnu \
        -cf - "$3" | gzip -9n > "$1.new"
    mv -f "$1.new" "$1"
}


# source_files: the files of this source, NUL after each

source_files() {
    if git -c "safe.directory=$top" -C "$top" rev-parse --is-inside-work-tree \
        > /dev/null 2>&1
    then
        git -c "safe.directory=$top" -C "$top" ls-files -z --cached --others \
            --exclude-standard
    else
        (cd "$top" && find . -name build -prune -o -name __pycache__ -prune \
            -o -type f -print0)
    fi | sort -zu
}


# source_copy DIR: a copy of this source

source_copy() {
    rm -rf "$1"
    mkdir -p "$1"
    # a file that git knows may have been removed
    # shellcheck disable=SC2016
    source_files | (cd "$top" && xargs -0 sh -c \
        'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh) \
        | tar -C "$top" --null --no-recursion -T - -cf - | tar -C "$1" -xf -
}


# build_packages: what a root needs to build, from debian/control

build_packages() {
    printf '%s' build-essential,debhelper,dh-python,fakeroot,passwd,nginx-dev
    sed -n '/^Build-Depends:/,/^Standards/p' "$top/debian/control" \
        | sed '/^Standards/d; s/^Build-Depends://; s/(.*)//; s/[ ,]//g' \
        | grep -vE '^(debhelper-compat|dh-sequence-.*|)$' \
        | sed 's/^/,/' | tr -d '\n'
}


need_root() {
    [ "$(id -u)" -eq 0 ] || die "a clean root is made by root: run it as" \
        "root or with sudo"
}


need_space() {
    free=$(df -Pk "$build" | awk 'NR == 2 { print int($4 / 1024) }')
    [ "$free" -ge "$1" ] || die "$build has $free MiB left, and this needs" \
        "$1 MiB: make space, or clone to another file system"
}


# root_ubuntu: how the sources of an Ubuntu begin, in $root_deb

root_ubuntu() {
    root_key=/usr/share/keyrings/ubuntu-archive-keyring.gpg
    [ -f $root_key ] || die "$root_key, with which Ubuntu's archive is" \
        "signed, is not there: apt-get install ubuntu-keyring; Debian 12 has" \
        "none, and that of Debian 13 will do"
    root_deb="deb [signed-by=$root_key]"
    root_deb="$root_deb ${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}"
}


# root_tar SUITE NAME PACKAGES: a clean root with these packages as a tarball,
# made once; its path is in $root_tar

root_tar() {
    root_print=$(printf '%s\n' "$1" "$3" "$mirror" | sha256sum | cut -c 1-12)
    root_tar=$roots/$1-$2-$root_print.tar

    [ ! -f "$root_tar" ] || return 0

    case $1 in
        jammy | noble)
            root_ubuntu "$1"
            set -- "$1" "$2" "$3" "$root_deb $1 main universe" \
                "$root_deb $1-updates main universe" \
                "$root_deb $1-security main universe"
            ;;
        *)
            if [ -z "$mirror" ] || [ -z "$security" ]; then
                die "apt's sources name no mirror of Debian: write" \
                    "DEBIAN_MIRROR= and DEBIAN_SECURITY="
            fi
            set -- "$1" "$2" "$3" "deb $mirror $1 main"
            case $1 in
                sid | unstable) ;;
                *)
                    set -- "$@" "deb $mirror $1-updates main" \
                        "deb $security $1-security main"
                    ;;
            esac
            ;;
    esac
    need_space 4096
    mkdir -p "$roots"
    rm -f "$roots/$1-$2-"*.tar

    say "making a root of $1, for $2"
    root_suite=$1
    root_name=$2
    root_include=$3
    shift 3

    command -v mmdebstrap > /dev/null \
        || die "a clean root is made by mmdebstrap: apt-get install mmdebstrap"
    (quiet "$roots/$root_suite-$root_name.log" mmdebstrap --mode=root \
        --variant=apt --include="$root_include" --skip=cleanup/apt/lists \
        --aptopt='APT::Install-Recommends "false"' \
        "$root_suite" "$roots/new.$$.tar" "$@") \
        || die "no root of $root_suite; without a network put a mirror into" \
            "DEBIAN_MIRROR=, or UBUNTU_MIRROR="
    mv "$roots/new.$$.tar" "$root_tar"
}


# root_open: unpack $root_tar; its path is in $root, gone when the script ends

root_open() {
    need_space 4096
    root=$roots/root.$$
    trap root_close EXIT
    trap 'exit 1' HUP INT TERM
    mkdir -p "$root"
    tar -C "$root" --numeric-owner -xf "$root_tar"

    printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    cp /etc/hosts "$root/etc/hosts"
}


root_close() {
    [ -z "${root:-}" ] || rm -rf --one-file-system "$root"
}


# in_root [--no-network] COMMAND...: in the root, with processes, /proc and
# mounts of its own, which end with the command

in_root() {
    in_root_flags=
    if [ "$1" = --no-network ]; then
        in_root_flags=--net
        shift
    fi

    # shellcheck disable=SC2016
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive ROOT="$root" \
        SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" JOBS="$jobs" \
        unshare --mount --pid --fork --kill-child $in_root_flags sh -c '
            mount --make-rprivate / && mount -t proc proc "$ROOT/proc" \
                && mount --rbind /dev "$ROOT/dev" || exit 1
            ip link set lo up 2> /dev/null || true
            exec chroot "$ROOT" "$@"' sh "$@"
}
