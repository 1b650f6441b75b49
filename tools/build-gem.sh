#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Build build/ngx_sendfile-VERSION.gem from gem/.  The same files make the same
# gem, byte by byte.
#
# usage: build-gem.sh

set -eu

# shellcheck source=tools/common.sh
. "$(dirname -- "$0")/common.sh"

# the times in the gem: 1980-01-02, what RubyGems itself takes where it can
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315619200}
export SOURCE_DATE_EPOCH

command -v gem > /dev/null || die "there is no gem: apt-get install ruby"

version=$(ruby -r "$top/gem/lib/ngx_sendfile/version.rb" \
    -e 'print NgxSendfile::VERSION')
out=$build/ngx_sendfile-$version.gem
staged=$build/gem

lock_build

rm -rf "$staged"
mkdir -p "$staged"
cp -R "$top/gem/lib" "$top/gem/ngx_sendfile.gemspec" "$top/gem/README.md" \
    "$top/CHANGELOG.md" "$top/LICENSE" "$staged/"
find "$staged" -type d -exec chmod 755 '{}' +
find "$staged" -type f -exec chmod 644 '{}' +

cd "$staged"
quiet "$build/gem.log" gem build --output "$out.new" \
    ngx_sendfile.gemspec

if cmp -s "$out.new" "$out"; then
    rm -f "$out.new"
    say "$out is up to date"
else
    mv -f "$out.new" "$out"
    say "built $out"
fi
