#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# The compiler of the sanitizer build (nginx's --with-cc).  Every file gets
# AddressSanitizer and UndefinedBehaviorSanitizer, and the first hit ends the
# process.  In nginx's own files two checks are off, and only these:
#
# nonnull-attribute  it copies 0 bytes from NULL (ngx_vslprintf, proxy)
# alignment          it loads and stores integers at odd addresses on purpose,
#                    where the processor can (NGX_HAVE_NONALIGNED)
#
# and so is -Werror, since the sanitizers make gcc's warnings less exact.

set -eu

top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
ours=no

for argument in "$@"; do
    case $argument in
        "$top"/build/*) ;;
        "$top"/*.c)     ours=yes ;;
    esac
done

if [ $ours = no ]; then
    set -- "$@" -Wno-error -fno-sanitize=nonnull-attribute,alignment
fi

exec "${SANITIZE_CC:-gcc}" -fsanitize=address,undefined \
    -fno-sanitize-recover=undefined "$@"
