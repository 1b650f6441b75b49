#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# The life of the packages in a clean root; tools/deb-test.sh runs it there, in
# /t: debs/, old/ (the version before), repo/ (an nginx of another ABI),
# source/ (README.md, debian/), tools/.
#
# usage: deb-lifecycle.sh PACKAGE...

set -eu
cd /t


step() {
    echo "* $*"
}


# all but what programs write at run time, and the bookkeeping of apt and dpkg

files() {
    find / -xdev \( -path /proc -o -path /dev -o -path /t -o -path /tmp \
        -o -path /run -o -path /root -o -path /var/lib/dpkg \
        -o -path /var/lib/apt -o -path /var/lib/systemd -o -path /var/cache \
        -o -path /var/log -o -path /var/lib/nginx \
        -o -path /etc/nginx/sites-enabled -o -name __pycache__ \) -prune \
        -o -print | sort
}


# new_in LIST: the files and links that LIST has and the file before has not

new_in() {
    comm -13 before "$1" | while IFS= read -r new_file; do
        if [ -L "$new_file" ] || [ -f "$new_file" ]; then
            printf '%s\n' "$new_file"
        fi
    done
}


get() {
    apt-get -q -y --no-install-recommends "$@" > apt.log 2>&1 \
        || { cat apt.log; exit 1; }
}


serves() {
    (cd source && sh debian/tests/serves)
}


versions() {
    # shellcheck disable=SC2016
    dpkg-query -W -f '${Version}\n' "$@" | sort -u
}


files > before

step "make install, then the packages: names, files and links are the same"
mkdir build
for package in debs/libnginx-mod-*.deb; do
    dpkg-deb -x "$package" unpacked
done
cp unpacked/usr/lib/nginx/modules/*.so build/
sh tools/install.sh > install.log
files > by-make
new_in by-make > made
[ -s made ]
nginx -t -q

get install ./debs/*.deb
files > by-package
new_in by-package | grep '/nginx/' > packaged
diff made packaged
while IFS= read -r file; do
    [ -L "$file" ] || dpkg -S "$file" > /dev/null
done < made
for conf in unpacked/usr/share/nginx/modules-available/*; do
    cmp "$conf" "/usr/share/nginx/modules-available/${conf##*/}"
done
serves

step "removed: nginx does without the modules"
get remove "$@"
[ ! -e /etc/nginx/modules-enabled/50-mod-http-sendfile.conf ]
nginx -t -q

step "purged: nothing is left"
dpkg --purge "$@" > apt.log 2>&1
files > after
diff before after

step "the version before, then an upgrade"
get install ./old/*.deb
[ "$(versions "$@")" = 0.0.9-1 ]
serves
get install ./debs/*.deb
[ "$(versions "$@")" != 0.0.9-1 ]
serves

step "an nginx of another ABI is refused"
echo 'deb [trusted=yes] file:/t/repo ./' > /etc/apt/sources.list.d/t.list
apt-get -q -o Dir::Etc::SourceList=/dev/null update > apt.log 2>&1
nginx=$(versions nginx)
apt-cache policy nginx | grep -q 'Candidate: 99.0-1'
get upgrade
[ "$(versions nginx)" = "$nginx" ]
if apt-get -q -y --no-remove install nginx=99.0-1 > apt.log 2>&1; then
    echo "apt has installed an nginx of another ABI"
    exit 1
fi
[ "$(versions nginx)" = "$nginx" ]
rm /etc/apt/sources.list.d/t.list
serves

step "purged at once: nothing is left"
dpkg --purge "$@" > apt.log 2>&1
files > after
diff before after

step "debian/tests, as autopkgtest runs them"
autopkgtest --ignore-restrictions=isolation-container,breaks-testbed \
    --no-built-binaries debs/*.deb source/ -- null > autopkgtest.log 2>&1 \
    || { cat autopkgtest.log; exit 1; }
grep -q '^serves *PASS' autopkgtest.log
