#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Run the README's commands for a fresh clone in a clean root of SUITE, which has
# make and nothing else that they need: `make run`, a file by its ID, Ctrl-C;
# with TEST=1 `make test` as well, which takes hours.  They download Debian's or
# Ubuntu's packages, and Python's.
#
# SUITE          bookworm (default), trixie; jammy, noble: Ubuntu 22.04, 24.04
# PORT           of 127.0.0.1, default 18080
# UBUNTU_MIRROR  default http://archive.ubuntu.com/ubuntu
# TEST           1: make test as well

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"
# shellcheck source=tools/packaging.sh
. "$top/tools/packaging.sh"

suite=${SUITE:-bookworm}

case $suite in
    bookworm | trixie | jammy | noble) ;;
    *)
        die "SUITE=$suite is not known: there are bookworm, trixie, jammy and" \
            "noble"
        ;;
esac

need_root
mkdir -p "$build"

root_tar "$suite" clone make
root_open

# where Python's packages come from, and which certificates are trusted beside
# Debian's, is the machine's matter, as its network is
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
mkdir -p "$root/usr/local/share/ca-certificates"
find /usr/local/share/ca-certificates -name '*.crt' \
    -exec cp '{}' "$root/usr/local/share/ca-certificates/" ';'

source_copy "$root/root/ngx_sendfile"

cat > "$root/root/commands" << 'END'
set -eu
cd /root/ngx_sendfile
url=http://127.0.0.1:$1/file/1

# what is started in the background ignores SIGINT, unless told otherwise
setsid env --default-signal=INT make run PORT="$1" > /root/run.log 2>&1 &
demo=$!

until curl -sf -o /root/file "$url" 2> /dev/null; do
    if ! kill -0 $demo 2> /dev/null; then
        cat /root/run.log
        exit 1
    fi
    sleep 1
done

cmp /root/file demo/files/pictures/mountains.png
kill -INT "-$demo"
wait $demo || true

if curl -sf "$url" > /dev/null \
    || ls -d /var/tmp/ngx_sendfile-demo-* 2> /dev/null
then
    echo "Ctrl-C has left something of make run"
    exit 1
fi

[ "$2" != 1 ] || make test
END

# shellcheck disable=SC2016
in_root sh /root/commands "${PORT:-18080}" "${TEST:-0}" \
    || die "make run or make test fails in a clean root of $suite"

say "make run$([ "${TEST:-0}" != 1 ] || echo ", make test"):" \
    "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$root/etc/os-release")," \
    "nginx $(in_root nginx -v 2>&1 | sed 's|.*nginx/||'), $(date -u +%F)"
