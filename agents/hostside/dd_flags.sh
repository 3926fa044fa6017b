#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh ddflags.sh iflag=A,B oflag=C conv=D...   Does this dd know them all? No data is touched.
# Every dd reads its arguments before it opens a file: one that knows them complains of the missing input only.
missing=./no-such-input
knows() {
    said=$(dd "if=$missing" of=/dev/null count=0 "$@" 2>&1)
    case $said in *"$missing"*) return 0 ;; esac
    said=$(printf '%s\n' "$said" | head -n 1)
    return 1
}
knows || {
    echo "there is no dd that works on this host: $said" >&2
    exit 1
}
answer=0
for given; do
    rest=${given#*=},
    while [ "$rest" ]; do
        one=${given%%=*}=${rest%%,*}
        rest=${rest#*,}
        knows "$one" || {
            echo "$one: this host's dd does not know it ($said); leave it out" >&2
            answer=1
        }
    done
done
[ "$answer" -ne 0 ] || knows "$@" || {
    echo "$*: this host's dd does not take them together ($said)" >&2
    answer=1
}
case $(dd if=/dev/zero of=/dev/null bs=512 count=1 2>&1) in
*' bytes '*) ;;
*)
    echo "this host's dd does not print how long it took (BusyBox built without that): install coreutils" >&2
    answer=1
    ;;
esac
exit "$answer"
