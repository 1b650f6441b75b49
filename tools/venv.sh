#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Make build/venv with sendfilectl in it, and for the tests all that they
# need.
#
# usage: venv.sh run | test

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"

python=${PYTHON:-python3}
venv=$build/venv

case ${1:-} in
    run)  requirements=$top/tools/requirements.txt ;;
    test) requirements=$top/test/requirements.txt ;;
    *)    echo "usage: $0 run | test" >&2; exit 2 ;;
esac

lock_build

# what is installed depends on the interpreter, these files, and this script
print=$( {
    "$python" -c 'import sys; print(sys.version, sys.base_prefix)'
    cat "$0" "$top/tools/requirements.txt" "$top/cli/pyproject.toml"
    find "$top/test" "$top/bench" -name requirements.txt -exec cat '{}' +
} | sha256sum)

current() {
    [ "$print" = "$(cat "$venv/.$1" 2> /dev/null)" ]
}

# the tests' is more than what make run needs
if current "$1" || current test; then
    exit 0
fi

if ! current run; then
    say "making $venv"
    rm -rf "$venv"
    quiet "$build/venv.log" "$python" -m venv "$venv"
fi

# sendfilectl is installed in place: a change to it needs no new venv
say "installing Python packages"
quiet "$build/venv.log" "$venv/bin/python" -m pip install \
    --disable-pip-version-check --no-input -r "$requirements" -e "$top/cli"

printf '%s\n' "$print" > "$venv/.$1"
