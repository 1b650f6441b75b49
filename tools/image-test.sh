#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Run the image that make image built, as an engine would: tools/image_test.py,
# in a network of its own, where the ports are free.
#
# SUITE  bookworm (default), trixie

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"
# shellcheck source=tools/packaging.sh
. "$top/tools/packaging.sh"

image=$build/image/${SUITE:-bookworm}/oci

need_root
[ -f "$image/index.json" ] \
    || die "$image is no image: make image SUITE=${SUITE:-bookworm}"

IMAGE=$image:ngx-sendfile:$version
export IMAGE
exec unshare --net --pid --mount-proc --fork --kill-child \
    "$build/venv/bin/python" -m pytest -q -p no:cacheprovider -p no:xdist \
    "$top/tools/image_test.py"
