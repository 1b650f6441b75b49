#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Build nginx-module-sendfile, the package for nginx.org's nginx NGINX_ORG, in a
# clean root of SUITE without network, into build/deb/SUITE-nginx.org/.  The
# package depends on nginx-rVERSION, which nginx.org's nginx of that very
# version provides, and has, as nginx.org's own modules have, both .so files and
# no load_module.
#
# Run by tools/deb.sh: SUITE, NGINX_ORG, JOBS, V as there.

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"
# shellcheck source=tools/packaging.sh
. "$top/tools/packaging.sh"

case $NGINX_ORG in
    [0-9]*.[0-9]*.[0-9]*) ;;
    *)
        die "NGINX_ORG=$NGINX_ORG is no version of nginx: write that which" \
            "\`nginx -v\` prints, such as NGINX_ORG=1.28.3"
        ;;
esac

need_root
mkdir -p "$build"

out=$build/deb/$SUITE-nginx.org
package=nginx-module-sendfile
full=$NGINX_ORG+$version-1~$SUITE

"$top/tools/nginx-src.sh" "$NGINX_ORG"
"$top/tools/mruby.sh" fetch

root_tar "$SUITE" build "$(build_packages)"
root_open

source=$root/build/source
source_copy "$source"
mkdir -p "$source/build/nginx-src" "$source/build/mruby"
cp -R "$build/nginx-src/$NGINX_ORG" "$source/build/nginx-src/"
cp -R "$build/mruby/crate" "$source/build/mruby/"

mkdir -p "$out"
say "building $package $full"
quiet "$out/build.log" in_root --no-network sh -c "
    cd /build/source &&
    NGINX_VERSION=$NGINX_ORG tools/module.sh &&
    cd build/module-$NGINX_ORG &&
    strip --strip-debug --remove-section=.comment *.so &&
    cd /build/source &&
    dpkg-shlibdeps -O build/module-$NGINX_ORG/*.so > /build/shlibs &&
    dpkg-shlibdeps -O build/nginx-$NGINX_ORG/nginx > /build/shlibs-nginx"

stage=$root/build/stage
doc=$stage/usr/share/doc/$package
mkdir -p "$stage/DEBIAN" "$stage/usr/lib/nginx/modules" "$doc"
install -m 644 "$source/build/module-$NGINX_ORG/"*.so \
    "$stage/usr/lib/nginx/modules/"
install -m 644 "$top/debian/copyright" "$top/docs/directives.md" \
    "$top/docs/operations.md" "$top/docs/recipes.md" "$doc/"

cat > "$stage/DEBIAN/control" << END
Package: $package
Version: $full
Architecture: $(dpkg --print-architecture)
Maintainer: $(sed -n 's/^Maintainer: //p' "$top/debian/control")
Section: httpd
Priority: optional
Depends: nginx-r$NGINX_ORG, $(sed 's/^shlibs:Depends=//' "$root/build/shlibs")
Description: nginx module that serves files by ID, for nginx.org's nginx
 Write at the top of /etc/nginx/nginx.conf:
 .
 load_module modules/ngx_http_sendfile_module.so;
END

find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" '{}' +
deb=$out/${package}_${full}_$(dpkg --print-architecture).deb
quiet "$out/build.log" dpkg-deb --root-owner-group -b "$stage" "$deb"
say "built $deb"

# for deb-test: the nginx that it was built with
cp "$source/build/nginx-$NGINX_ORG/nginx" "$out/nginx-$NGINX_ORG"
sed 's/^shlibs:Depends=//' "$root/build/shlibs-nginx" \
    > "$out/nginx-$NGINX_ORG.depends"
