#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Make what a release has, in build/release/: the source, the gem, the wheel,
# the Debian packages that make deb has made of this version, a bill of materials
# (CycloneDX), the changelog's section as notes, and SHA256SUMS of all.  The same
# tree gives the same bytes.
#
# SIGN  a key of gpg, which then signs SHA256SUMS

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"
# shellcheck source=tools/packaging.sh
. "$top/tools/packaging.sh"

python=${PYTHON:-python3}
out=$build/release
work=$build/release-work
venv=$build/release-venv

# what makes the wheel, and the bill of materials, is part of its bytes
makers="hatchling==1.27.0
$(grep '^cyclonedx-python-lib' "$top/test/requirements.txt")"

rm -rf "$out" "$work"
mkdir -p "$out" "$work"

source_copy "$work/ngx_sendfile-$version"
tar_same "$out/ngx_sendfile-$version.tar.gz" "$work" "ngx_sendfile-$version"

"$top/tools/build-gem.sh"
cp "$build/ngx_sendfile-$version.gem" "$out/"

if [ "$(cat "$venv/.made" 2> /dev/null)" != "$makers" ]; then
    rm -rf "$venv"
    quiet "$build/release.log" "$python" -m venv "$venv"
    # shellcheck disable=SC2086  # a list
    quiet "$build/release.log" "$venv/bin/python" -m pip install \
        --no-input $makers
    printf '%s\n' "$makers" > "$venv/.made"
fi
quiet "$build/release.log" "$venv/bin/python" -m pip wheel --no-deps \
    --no-build-isolation --no-input --wheel-dir "$out" \
    "$work/ngx_sendfile-$version/cli"

for deb in "$build"/deb/*/*"$version"-1~*.deb; do
    case $deb in
        *'*'* | *-dbgsym_*) ;;
        *) cp "$deb" "$out/" ;;
    esac
done

"$venv/bin/python" "$top/tools/sbom.py" "$out" "$work/sbom" \
    || die "no bill of materials, see above"
mv "$work/sbom" "$out/ngx_sendfile-$version.cdx.json"

awk -v version="$version" '
    /^## / { on = ($2 == version); next }
    on
' "$top/CHANGELOG.md" | sed '/./,$!d' > "$out/NOTES.md"
[ -s "$out/NOTES.md" ] || die "CHANGELOG.md has no section for $version"

(cd "$out" && sha256sum -- * > "$work/SHA256SUMS" \
    && mv "$work/SHA256SUMS" .)

if [ -n "${SIGN:-}" ]; then
    gpg --batch --yes --local-user "$SIGN" --armor --detach-sign \
        "$out/SHA256SUMS" || die "gpg cannot sign with the key $SIGN"
fi

rm -rf "$work"
say "made $out:"
cat "$out/SHA256SUMS"
