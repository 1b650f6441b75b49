#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Install nginx-module-sendfile, which make deb NGINX_ORG= made, in a clean root
# of SUITE without network, with a vanilla nginx in a package that provides what
# nginx.org's does; serve a file by its ID, be refused with another version of
# nginx, and go without a trace.
#
# Run by tools/deb-test.sh: SUITE, NGINX_ORG as there.

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"
# shellcheck source=tools/packaging.sh
. "$top/tools/packaging.sh"

debs=$build/deb/$SUITE-nginx.org
work=$build/deb/test-$SUITE-nginx.org
package=nginx-module-sendfile

need_root
deb=$(find "$debs" -name "${package}_$NGINX_ORG+*.deb" 2> /dev/null | grep .) \
    || die "$debs has no $package for $NGINX_ORG: make deb SUITE=$SUITE" \
        "NGINX_ORG=$NGINX_ORG"


# nginx VERSION: the package nginx, with the vanilla one

nginx() {
    mkdir -p "$work/nginx/DEBIAN" "$work/nginx/usr/sbin" "$work/nginx/etc/nginx"
    cp "$debs/nginx-$NGINX_ORG" "$work/nginx/usr/sbin/nginx"
    ln -s /usr/lib/nginx/modules "$work/nginx/etc/nginx/modules"
    cat > "$work/nginx/DEBIAN/control" << END
Package: nginx
Version: $1-1~$SUITE
Architecture: $(dpkg --print-architecture)
Maintainer: nobody <nobody@localhost>
Provides: nginx-r$1
Depends: $(cat "$debs/nginx-$NGINX_ORG.depends")
Description: a vanilla nginx
END
    quiet "$work/nginx.log" dpkg-deb --root-owner-group -b "$work/nginx" "$2"
    rm -rf "$work/nginx"
}


rm -rf "$work"
mkdir -p "$work"
cp "$deb" "$work/module.deb"
nginx "$NGINX_ORG" "$work/nginx.deb"
nginx 99.0.0 "$work/other.deb"

depends=$( (dpkg-deb -f "$deb" Depends; cat "$debs/nginx-$NGINX_ORG.depends") \
    | tr ',' '\n' | sed 's/(.*//; s/|.*//; s/ //g; /^nginx-r/d; /^$/d' \
    | sort -u | tr '\n' ',')

{
    for so in $(dpkg-deb -c "$deb" | grep -o 'ngx_http_sendfile_.*module\.so'); do
        echo "load_module modules/$so;"
    done | sort
    printf 'user www-data;\nevents { }\nhttp {\naccess_log off;\n'
    sed -n '/<!-- test: memcached -->/,/^```$/p' "$top/README.md" \
        | sed '/^<!--/d; /^```/d; s/listen  *80/listen 127.0.0.1:80/'
    echo '}'
} > "$work/nginx.conf"

cat > "$work/test" << 'END'
set -eu
cd /t

get() {
    apt-get -q -y --no-install-recommends "$@" > apt.log 2>&1
}

get install ./other.deb
if get install --no-remove ./module.deb; then
    echo "the module is installed with another version of nginx"
    exit 1
fi
get purge nginx

get install ./nginx.deb ./module.deb || { cat apt.log; exit 1; }

mkdir -p /srv/www/files/29
echo 'a file' > /srv/www/files/29/7887.jpg
memcached -u nobody -l 127.0.0.1 &
until printf 'set 297887 0 0 11\r\n29/7887.jpg\r\nquit\r\n' \
    | curl -s telnet://127.0.0.1:11211 | grep STORED > /dev/null
do
    kill -0 $!
done

run() {
    nginx -p /etc/nginx/ -c /t/nginx.conf -g 'pid /run/nginx.pid;' "$@"
}

nginx -V 2>&1 | head -n 1
run -t -q
run
[ "$(curl -sf http://127.0.0.1/file/297887)" = 'a file' ]
[ "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1/file/7)" = 404 ]
run -s quit

get purge nginx-module-sendfile
[ -z "$(find / -xdev -name 'ngx_http_sendfile*' -o -name 'nginx-module-*')" ]
END

root_tar "$SUITE" org "curl,memcached,${depends%,}"
root_open
mv "$work" "$root/t"

in_root --no-network sh /t/test \
    || die "$package for nginx $NGINX_ORG does not behave"

say "${deb##*/} installs, serves and goes without a trace in $SUITE"
