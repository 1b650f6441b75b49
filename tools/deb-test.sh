#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Install, use, upgrade, remove and purge the packages that make deb made, in
# a clean root of SUITE without network, with nothing but what they depend on.
#
# SUITE      bookworm (default), trixie
# NGINX_ORG  a version: the package for nginx.org's nginx instead

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"
# shellcheck source=tools/packaging.sh
. "$top/tools/packaging.sh"

suite=${SUITE:-bookworm}
debs=$build/deb/$suite
work=$build/deb/test-$suite
ours=$(sed -n 's/^Package: //p' "$top/debian/control" | tr '\n' ' ')

need_root

if [ -n "${NGINX_ORG:-}" ]; then
    SUITE=$suite
    export SUITE
    exec "$top/tools/nginx-org-test.sh"
fi


deb() {
    find "$debs" -name "$1_[0-9]*.deb" 2> /dev/null | grep . \
        || die "$debs has no $1: make deb SUITE=$suite"
}


# The root: what the packages depend on, and what the test runs.

rm -rf "$work"
mkdir -p "$work/debs" "$work/old" "$work/repo" "$work/nginx/DEBIAN" \
    "$work/source" "$work/tools"

for package in $ours; do
    file=$(deb "$package")
    cp "$file" "$work/debs/"
done

# shellcheck disable=SC2086  # a list
depends=$(for file in "$work/debs/"*.deb; do
    dpkg-deb -f "$file" Depends
done | tr ',' '\n' | sed 's/(.*//; s/|.*//; s/:any//; s/ //g; /^nginx-abi-/d' \
    | grep -vxF "$(printf '%s\n' $ours)" | sort -u | tr '\n' ',')

root_tar "$suite" test "nginx,curl,memcached,autopkgtest,dpkg-dev,${depends%,}"


# The version before: the same packages, called 0.0.9.

for file in "$work/debs/"*.deb; do
    dpkg-deb -R "$file" "$work/unpacked"
    current=$(dpkg-deb -f "$file" Version)
    sed -i "s/$current/0.0.9-1/" "$work/unpacked/DEBIAN/control"
    quiet "$work/old.log" dpkg-deb --root-owner-group -b "$work/unpacked" \
        "$work/old"
    rm -rf "$work/unpacked"
done


# An nginx of another ABI, in an archive of its own.

cat > "$work/nginx/DEBIAN/control" << END
Package: nginx
Version: 99.0-1
Architecture: $(dpkg --print-architecture)
Maintainer: nobody <nobody@localhost>
Provides: nginx-abi-99.0-1, httpd
Description: an nginx of another ABI
END
quiet "$work/repo.log" dpkg-deb -b "$work/nginx" "$work/repo/nginx_99.deb"
(cd "$work/repo" && dpkg-scanpackages -m . > Packages 2> /dev/null)


cp -R "$top/debian" "$top/README.md" "$work/source/"
cp "$top/tools/install.sh" "$top/tools/common.sh" \
    "$top/tools/deb-lifecycle.sh" "$work/tools/"

root_open
mv "$work" "$root/t"

# shellcheck disable=SC2086  # a list
in_root --no-network sh /t/tools/deb-lifecycle.sh $ours \
    || die "the packages for $suite do not behave"

say "the packages for $suite install, serve, upgrade and go without a trace"
