#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Serve the demonstration in the foreground until Ctrl-C: the files of demo/
# by their IDs, from an LMDB store.  Installs and builds what is missing.
#
# PORT       of 127.0.0.1; default 8080
# NGINX_BIN  as for build-module.sh

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"

port=${PORT:-8080}
nginx=${NGINX_BIN:-/usr/sbin/nginx}
python=${PYTHON:-python3}

# The workers are another user, and the clone may lie in a home that is
# closed to it; so what they read is copied to a place that all may read and
# only we may write.
dir=/var/tmp/ngx_sendfile-demo-$port


# The port: in use is a message now, not nginx's after five attempts.

case $port in
    '' | *[!0-9]* | 0* | ??????*)
        die "PORT=$port is no port: take a number from 1 to 65535"
        ;;
esac
[ "$port" -le 65535 ] \
    || die "PORT=$port is no port: take a number from 1 to 65535"

"$top/tools/deps.sh" run

"$python" - "$port" << 'END' || exit 1
import errno
import socket
import sys


def usable(port):
    """The error that binding the port gives, None if it is free."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
            sock.listen()
        except OSError as error:
            return error
    return None


port = int(sys.argv[1])
error = usable(port)
if error is not None:
    other = next(
        (p for p in range(max(port, 1023) + 1, 65536) if usable(p) is None), 8081
    )
    if error.errno == errno.EADDRINUSE:
        what = "is taken"
    else:
        what = f"cannot be used ({error.strerror})"
    sys.exit(
        f"port {port} on 127.0.0.1 {what}; choose another: make run PORT={other}"
    )
END

"$top/tools/build-module.sh"
"$top/tools/venv.sh" run


# The folder: ours alone.  /var/tmp is sticky, so what we made stays ours.

umask 022

if ! mkdir "$dir" 2> /dev/null; then
    if [ -L "$dir" ] || [ ! -d "$dir" ] || [ ! -O "$dir" ]; then
        die "$dir exists and is not ours: remove it, or choose another port:" \
            "make run PORT=$((port + 1))"
    fi

    # the port is free: left by a run that was killed, or that of one that is
    # just starting
    other=$(cat "$dir/run.pid" 2> /dev/null || true)
    if [ -n "$other" ] && grep -qs run.sh "/proc/$other/cmdline"; then
        die "another make run (process $other) is starting on port $port;" \
            "choose another: make run PORT=$((port + 1))"
    fi
    rm -rf "$dir"
    mkdir "$dir"
fi

echo $$ > "$dir/run.pid"
pid=


# shellcheck disable=SC2317  # called by the trap
finish() {
    status=$?
    trap - EXIT
    trap '' HUP INT TERM

    if [ -n "$pid" ]; then
        kill -TERM "$pid" 2> /dev/null || true
        wait "$pid" 2> /dev/null || true
    fi
    rm -rf "$dir"
    exit "$status"
}


# stopped on request is a good end
trap finish EXIT
trap 'exit 0' HUP INT TERM

mkdir "$dir/temp"
cp -R "$top/demo/files" "$dir/files"
mkdir "$dir/page"
cp "$top/demo/index.html" "$dir/page/index.html"
chmod -R u=rwX,go=rX "$dir/files" "$dir/page"

"$build/venv/bin/sendfilectl" import "lmdb:$dir/ids.lmdb" \
    "$top/demo/files.csv"

# The store is the workers', and nobody else's.

if [ "$(id -u)" -eq 0 ]; then
    worker=nobody
    if id www-data > /dev/null 2>&1; then
        worker=www-data
    fi
    user="user              $worker;"
    chown -R "$worker:" "$dir/ids.lmdb"
else
    user='# user www-data; as root'
fi
chmod -R u=rwX,go= "$dir/ids.lmdb"


# The configuration.

# /dev/stdout cannot be opened where it is a socket
access_log=/dev/stdout
if ! (: >> /dev/stdout) 2> /dev/null; then
    access_log=$dir/access.log
fi

sed -e "s|@DIR@|$dir|g" \
    -e "s|@PORT@|$port|g" \
    -e "s|@USER@|$user|g" \
    -e "s|@MODULE@|$build/ngx_http_sendfile_module.so|g" \
    -e "s|@ACCESS_LOG@|$access_log|g" \
    "$top/demo/nginx.conf" > "$dir/nginx.conf"

set -- -p "$dir" -c "$dir/nginx.conf"

# since 1.19.5; before, the log of the time until the configuration is read
# is a file that only root may write, which is no more than an [alert]
if "$nginx" -h 2>&1 | grep -q -- '-e filename'; then
    set -- "$@" -e stderr
fi

"$nginx" -t -q "$@" || die "nginx refuses $dir/nginx.conf"


# Serve.  The lines to try come when they work.

"$nginx" "$@" &
pid=$!

url=http://127.0.0.1:$port

"$python" - "$port" "$pid" << 'END' || die "nginx did not start"
import os
import socket
import sys
import time

port, pid = int(sys.argv[1]), int(sys.argv[2])
deadline = time.monotonic() + 15

while True:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        break
    except OSError:
        os.kill(pid, 0)
        if time.monotonic() > deadline:
            raise
        time.sleep(0.02)
END

cat << END

Serving demo/files by ID on $url/file/1 to /file/6 (configuration:
$dir/nginx.conf). In a browser:

  $url/
  $url/sendfile-status/

are the files, and what nginx counts. To try in another terminal:

  curl -o picture.png $url/file/1
  curl -I $url/file/5
  curl -i $url/file/999

a picture, a file with a Japanese name (see its Content-Disposition), an ID
that is not in the store. The store is $dir/ids.lmdb. Ctrl-C stops.

END

status=0
wait "$pid" || status=$?
pid=
[ "$status" -eq 0 ] || die "nginx ended with status $status"
