#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Build the RPM of packaging/rpm, for nginx.org's nginx NGINX_ORG, in a clean
# root of SUITE without network, into build/rpm/, which lets that nginx load what
# it has; install it there, and remove it.
#
# It proves the spec: the libraries that the RPM asks for are those of Debian.
# A system of RPMs builds its own from the source package, which lies beside it.
#
# NGINX_ORG  a version, default that of the spec; see tools/nginx-src.sh
# SUITE      bookworm (default), trixie
# JOBS, V    as usual

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"
# shellcheck source=tools/packaging.sh
. "$top/tools/packaging.sh"

suite=${SUITE:-bookworm}
spec=$top/packaging/rpm/nginx-module-sendfile.spec
nginx=${NGINX_ORG:-$(sed -n \
    's/.*global nginx_version \([0-9.]*\)}$/\1/p' "$spec")}
out=$build/rpm
work=$build/rpm-work

case $nginx in
    [0-9]*.[0-9]*.[0-9]*) ;;
    *)
        die "NGINX_ORG=$nginx is no version of nginx: write that which" \
            "\`nginx -v\` prints, such as NGINX_ORG=1.28.3"
        ;;
esac

need_root
mkdir -p "$build"

rpmspec -P "$spec" > /dev/null || die "rpm cannot read $spec"


# The sources; mruby's and nginx's are in the source package alone.

"$top/tools/nginx-src.sh" "$nginx"
"$top/tools/mruby.sh" fetch

rm -rf "$work"
mkdir -p "$work/SOURCES" "$work/tree"

# add_source NAME FOLDER TARBALL: a folder, which is called NAME in it

add_source() {
    mkdir "$work/tree/$1"
    cp -R "$2/." "$work/tree/$1"
    tar_same "$work/SOURCES/$3" "$work/tree" "$1"
}

source_copy "$work/copy"
add_source "ngx_sendfile-$version" "$work/copy" "ngx_sendfile-$version.tar.gz"
add_source "nginx-$nginx" "$build/nginx-src/$nginx" "nginx-$nginx.tar.gz"
add_source mruby "$build/mruby/crate" mruby-3.2.0.tar.gz
rm -rf "$work/tree" "$work/copy"
# rpmbuild --rebuild has no --define of ours
sed "s/global nginx_version [0-9.]*}/global nginx_version $nginx}/" \
    "$spec" > "$work/${spec##*/}"


# The build.

root_tar "$suite" rpm "gcc,make,libc6-dev,libjansson-dev,liblmdb-dev,\
libpcre2-dev,libsqlite3-dev,libssl-dev,passwd,rpm,ruby,zlib1g-dev"
root_open

mv "$work" "$root/build"
in_root useradd -M -d /build builder
in_root chown -R builder /build

rm -rf "$out"
mkdir -p "$out"
say "building an RPM for nginx $nginx"
# Debian's libraries are not in rpm's database, hence --nodeps
quiet "$out/build.log" in_root --no-network su builder -c "
    rpmbuild -ba --nodeps --define '_topdir /build' \
        --define '_buildhost localhost' \
        --define 'use_source_date_epoch_as_buildtime 1' \
        --define 'clamp_mtime_to_source_date_epoch 1' \
        '/build/${spec##*/}'"

find "$root/build/RPMS" "$root/build/SRPMS" -name '*.rpm' \
    -exec cp '{}' "$out/" ';'
rpm=$(find "$out" -name '*.rpm' ! -name '*.src.rpm')
so=$(rpm -qlp "$rpm" | grep '\.so$')


# What it has, and that it is installed and goes again.  That nginx loads the
# modules is checked by the spec.

rpm -qp --requires "$rpm" | grep -qFx "nginx-r$nginx" \
    || die "$rpm does not depend on nginx-r$nginx"
[ "$(printf '%s\n' "$so" | wc -l)" -eq 4 ] \
    || die "$rpm has not the four modules: $so"

quiet "$out/install.log" in_root --no-network sh -c "
    set -e
    rpm -i --nodeps /build/RPMS/*/*.rpm
    rpm -V --nodeps nginx-module-sendfile
    rpm -e nginx-module-sendfile
    [ -z \"\$(find / -xdev -name 'ngx_http_sendfile*.so' \
        ! -path '/build/*')\" ]"

if command -v rpmlint > /dev/null; then
    rpmlint -c "$top/packaging/rpm/rpmlint.toml" "$spec" "$out"/*.rpm \
        || die "rpmlint is not content"
fi

for file in "$out"/*.rpm; do
    say "built $file"
done
