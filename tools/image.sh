#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Build the container image of packaging/container/Containerfile from the
# packages that make deb made, into build/image/SUITE/: the OCI layout oci/, and
# the archive that docker load and podman load read.  No registry is asked: Debian
# slim is made here.  The same packages and the same state of Debian's archive
# give the same image.
#
# SUITE  bookworm (default), trixie
# V      as usual

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"
# shellcheck source=tools/packaging.sh
. "$top/tools/packaging.sh"

suite=${SUITE:-bookworm}
debs=$build/deb/$suite
out=$build/image/$suite
work=$build/image/work-$suite
name=ngx-sendfile

need_root
mkdir -p "$build"
need_space 4096

for package in libnginx-mod-http-sendfile sendfilectl; do
    find "$debs" -name "${package}_${version}-*.deb" 2> /dev/null \
        | grep -q . || die "$debs has no $package $version: make deb" \
            "SUITE=$suite"
done

if [ -z "$mirror" ] || [ -z "$security" ]; then
    die "apt's sources name no mirror of Debian: write DEBIAN_MIRROR= and" \
        "DEBIAN_SECURITY="
fi


# sources MIRROR SECURITY: a list of apt's sources

sources() {
    echo "deb $1 $suite main"
    echo "deb $1 $suite-updates main"
    echo "deb $2 $suite-security main"
}


# Debian slim: without documents, translations, and services that start, with
# Debian's own archive in apt's sources wherever it was made from.

slim() {
    base=$build/image/base-$suite.tar

    # made anew after a day, for its packages are upgraded
    [ -z "$(find "$base" -mtime -1 2> /dev/null)" ] || return 0

    say "making Debian $suite slim"
    sources http://deb.debian.org/debian \
        http://deb.debian.org/debian-security > "$work/sources.list"
    printf '#!/bin/sh\nexit 101\n' > "$work/policy-rc.d"
    # shellcheck disable=SC2016  # for the hook's shell
    quiet "$work/base.log" mmdebstrap --mode=root --variant=minbase \
        --aptopt='APT::Install-Recommends "false"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' \
        --customize-hook='rm -rf "$1"/usr/share/locale/* "$1"/usr/share/man/*' \
        --customize-hook="copy-in $work/sources.list /etc/apt" \
        --customize-hook="copy-in $work/policy-rc.d /usr/sbin" \
        --customize-hook='chmod 755 "$1/usr/sbin/policy-rc.d"' \
        --customize-hook='find "$1/var/log" -type f -delete' \
        "$suite" "$work/base.tar" "deb $mirror $suite main" \
        "deb $mirror $suite-updates main" \
        "deb $security $suite-security main" \
        || die "no root of Debian $suite; without a network put a mirror" \
            "into DEBIAN_MIRROR="
    mv "$work/base.tar" "$base"
}


# All that buildah keeps is below $work, and gone when the script ends.

in_store() {
    buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs "$@"
}


# shellcheck disable=SC2317  # called by the trap
close_work() {
    rm -rf --one-file-system "$work"
}


rm -rf "$work"
mkdir -p "$work" "$out"
trap close_work EXIT
trap 'exit 1' HUP INT TERM

slim

say "building the image $name:$version of Debian $suite"
printf 'FROM scratch\nADD base.tar /\n' > "$work/Containerfile"
mkdir "$work/base"
ln "$build/image/base-$suite.tar" "$work/base/base.tar"
quiet "$work/base.log" in_store bud --isolation chroot --format oci \
    --timestamp "$SOURCE_DATE_EPOCH" --tag "localhost/debian:$suite-slim" \
    --file "$work/Containerfile" "$work/base"

# the mirror is this machine's, and not to be in the image
sources "$mirror" "$security" > "$work/sources.list"
quiet "$out/build.log" in_store bud --isolation chroot --format oci \
    --pull-never --timestamp "$SOURCE_DATE_EPOCH" \
    --build-arg "BASE=localhost/debian:$suite-slim" \
    --build-arg "VERSION=$version" --build-context "debs=$debs" \
    --volume "$work/sources.list:/etc/apt/sources.list:ro" \
    --tag "localhost/$name:$version" \
    --file "$top/packaging/container/Containerfile" "$top"

rm -rf "$out/oci" "$out/"*.tar.gz
quiet "$work/push.log" in_store push "localhost/$name:$version" \
    "oci:$out/oci:$name:$version"
quiet "$work/push.log" in_store push "localhost/$name:$version" \
    "docker-archive:$work/$name.tar:$name:$version"
gzip -n < "$work/$name.tar" > "$out/$name-$version.tar.gz"

say "built $out/oci and $out/$name-$version.tar.gz ($(du -h \
    "$out/$name-$version.tar.gz" | cut -f 1))"
