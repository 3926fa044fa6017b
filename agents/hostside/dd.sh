#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh dd.sh write|read|device PATH BYTES DD-ARGUMENT...   Runs dd; it prints to stderr. A file is removed afterwards.

mode=$1 file=$2 bytes=$3
shift 3
if [ "$mode" = device ]; then
    # A node that went away must not become a file that fills /dev.
    [ -b "$file" ] || [ -c "$file" ] || {
        echo "dd.sh: $file is no device" >&2
        exit 1
    }
    mark dd
    dd "$@"
    code=$?
    mark end
    exit $code
fi
trap 'rm -f -- "$file"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ "$mode" = read ]; then
    # Random data, so that no layer below can compress it or keep only a hole.
    { dd if=/dev/urandom bs=1048576 count=$(((bytes + 1048575) / 1048576)) >"$file"; } 2>layout.txt || {
        sed 's/^/layout: /' layout.txt >&2
        exit 1
    }
    forget
fi
mark dd
dd "$@"
code=$?
mark end
exit $code
