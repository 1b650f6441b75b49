#!/bin/sh
#
# Copyright (C) the ngx_sendfile authors
#
# Print the page of the status location as C: its bytes, style and script put
# into it, and the Content-Security-Policy that allows these two and nothing
# else.  Runs when the module is built, with what every Debian has.

set -eu

LC_ALL=C
export LC_ALL

dir=$(dirname -- "$0")


# hash FILE: of a style or script, as a policy has it: SHA-256 in base64.  Twelve
# bits are three hexadecimal digits or two of base64; the last four of the
# digest are padded with zeros.

hash() {
    sha256sum < "$1" | awk '
        {
            digits = "0123456789abcdef"
            base = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" \
                   "0123456789+/"
            hex = substr($1, 1, 64) "00"

            for (i = 1; i <= 64; i += 3) {
                n = 0
                for (j = i; j < i + 3; j++) {
                    n = n * 16 + index(digits, substr(hex, j, 1)) - 1
                }
                text = text substr(base, int(n / 64) + 1, 1)
                text = text substr(base, n % 64 + 1, 1)
            }

            print "sha256-" substr(text, 1, 43) "="
        }
    '
}


style=$(hash "$dir/status.css")
script=$(hash "$dir/status.js")

cat << END
/* made by src/status/bytes.sh */

#define NGX_HTTP_SENDFILE_PAGE_POLICY                                         \\
    "default-src 'none'; connect-src 'self'; img-src data:; "                 \\
    "style-src '$style'; "     \\
    "script-src '$script'; "    \\
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static u_char  ngx_http_sendfile_page_data[] = {
END

# the style and the script are the very bytes between their tags

awk -v dir="$dir" '
    /^<!-- (style|script) -->$/ {
        name = $2 == "style" ? "status.css" : "status.js"
        printf "<%s>", $2
        while ((got = (getline line < (dir "/" name))) > 0) {
            print line
        }
        if (got < 0) {
            exit 1
        }
        printf "</%s>\n", $2
        next
    }
    { print }
' "$dir/status.html" | od -An -v -tx1 | sed -e 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'

echo '};'
