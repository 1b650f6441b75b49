#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Build Debian's packages in a clean root, without network, into
# build/deb/SUITE/, and let lintian look at them.
#
# SUITE      bookworm (default), trixie
# NGINX_ORG  a version: the package for nginx.org's nginx instead
# JOBS, V    as usual

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"
# shellcheck source=tools/packaging.sh
. "$top/tools/packaging.sh"

suite=${SUITE:-bookworm}

# what the suite is called in versions, and what it lacks
case $suite in
    bookworm) tag=deb12 carry=typer ;;
    trixie)   tag=deb13 carry= ;;
    *)        die "SUITE=$suite is not known: there are bookworm and trixie" ;;
esac

# the last typer that Debian 12's click takes, and that of Debian 13
typer=0.15.2

if [ -n "${NGINX_ORG:-}" ]; then
    SUITE=$suite
    export SUITE
    exec "$top/tools/nginx-org.sh"
fi

need_root
mkdir -p "$build"

out=$build/deb/$suite
work=$build/deb/work-$suite
name=ngx-sendfile
full=$version-1~${tag}u1

# debian/changelog has the version that is released
grep -q "^$name ($version-1) " "$top/debian/changelog" \
    || die "debian/changelog begins with another version than $version"


# The source package: what is downloaded is downloaded for it.

rm -rf "$work"
mkdir -p "$work" "$out"

source_copy "$work/$name-$version"
mv "$work/$name-$version/debian" "$work/debian"
tar_same "$work/${name}_$version.orig.tar.gz" "$work" "$name-$version"

"$top/tools/mruby.sh" fetch
mkdir "$work/mruby"
cp -R "$build/mruby/crate/." "$work/mruby"
rm -rf "$work/mruby/.version" "$work/mruby/doc" "$work/mruby/benchmark" \
    "$work/mruby/oss-fuzz" "$work/mruby/examples"
tar_same "$work/${name}_$version.orig-mruby.tar.gz" "$work" mruby
mv "$work/mruby" "$work/$name-$version/mruby"

if [ "$carry" = typer ]; then
    [ -f "$build/typer-$typer-py3-none-any.whl" ] \
        || quiet "$build/typer.log" "${PYTHON:-python3}" -m pip download \
            --no-deps --only-binary :all: -d "$build" "typer==$typer"
    mkdir "$work/typer"
    "${PYTHON:-python3}" -m zipfile -e \
        "$build/typer-$typer-py3-none-any.whl" "$work/typer"
    mv "$work/typer/typer-$typer.dist-info/licenses/LICENSE" "$work/typer/"
    rm -rf "$work/typer/typer-$typer.dist-info"
    tar_same "$work/${name}_$version.orig-typer.tar.gz" "$work" typer
    mv "$work/typer" "$work/$name-$version/typer"
fi

mv "$work/debian" "$work/$name-$version/debian"
{
    printf '%s (%s) %s; urgency=medium\n\n  * Built for Debian %s.\n\n' \
        "$name" "$full" "$suite" "$suite"
    sed -n "/^ -- /{s/>  .*/>  $(date -uR -d "@$((SOURCE_DATE_EPOCH + 60))")/p;q}" \
        "$top/debian/changelog"
    echo
    cat "$top/debian/changelog"
} > "$work/changelog"
mv "$work/changelog" "$work/$name-$version/debian/changelog"

(cd "$work" && quiet "$work/source.log" dpkg-source -b "$name-$version")


# The build, of a clean root with what debian/control asks for.

root_tar "$suite" build "$(build_packages)"
root_open

mkdir -p "$root/build"
cp "$work/${name}_"*.orig*.tar.gz "$work/${name}_$full"* "$root/build/"
in_root useradd -m builder
in_root chown -R builder /build

say "building $name $full"
quiet "$out/build.log" in_root --no-network su builder -c "
    cd /build && dpkg-source -x ${name}_$full.dsc source &&
    cd source && DEB_BUILD_OPTIONS='parallel=$jobs' dpkg-buildpackage -us -uc"

find "$out" -maxdepth 1 -type f ! -name build.log -delete
cp "$root/build/"*.* "$out/"


# All that lintian says is either mended or has an override with its reason.

if command -v lintian > /dev/null; then
    lintian --allow-root --fail-on error,warning --suppress-tags \
        "bad-distribution-in-changes-file" "$out/${name}_${full}_"*.changes \
        || die "lintian is not content"
fi

rm -rf "$work"
for deb in "$out"/*.deb; do
    say "built $deb"
done
