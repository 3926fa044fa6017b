#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh pg_test_fsync.sh FILE SECONDS PROGRAM PLACE...   PROGRAM: a path; or a name, to be looked for in PATH and in each
# PLACE (a pattern), and the newest wins. Standard error says which it was.

file=$1 seconds=$2 program=$3
shift 3
candidates() {
    command -v "$program"
    for place; do
        # shellcheck disable=SC2086  # a pattern
        for found in $place/"$program"; do echo "$found"; done
    done
}
versions() { # "MAJOR MINOR PATCH RANK PATH" of each: a path found earlier has the higher rank
    rank=1000
    while IFS= read -r found; do
        [ -x "$found" ] && [ -f "$found" ] || continue
        may_run "$found" || {
            echo "pg_test_fsync.sh: $found is left out: root would run it, but $doubt" >&2
            continue
        }
        said=$("$real" --version 2>/dev/null </dev/null) || continue
        said=$(echo "$said" | sed -n \
            '1s/^[^0-9]*\([0-9]\{1,4\}\)\.\{0,1\}\([0-9]\{0,4\}\)\.\{0,1\}\([0-9]\{0,4\}\).*/\1 0\2 0\3/p')
        [ -z "$said" ] || echo "$said $rank $real"
        rank=$((rank - 1))
    done
}
case $program in
    /*) ;;
    *)
        newest=$(candidates "$@" | versions | sort -k1,1n -k2,2n -k3,3n -k4,4n | tail -n 1)
        [ -n "$newest" ] || {
            echo "pg_test_fsync.sh: no $program in PATH nor in $*" >&2
            exit 127
        }
        program=/${newest#*/}
        ;;
esac
said=$("$program" --version 2>&1 </dev/null) || {
    echo "pg_test_fsync.sh: $program does not run here: $said" >&2
    exit 126
}
echo "pg_test_fsync.sh: $program: $said" >&2
trap 'rm -f -- "$file"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
{
    "$program" -s "$seconds" -f "$file" 2>pg_test_fsync.said
    echo $? >exit-code
} | marked
cat pg_test_fsync.said >&2
read -r code <exit-code || exit 1
# A disk of 4 KiB sectors takes no direct write of 2 kB, and the program gives up there. What it measured stands.
[ "$code" = 1 ] && said=$(grep "write failed: Invalid argument" pg_test_fsync.said) || exit "$code"
echo "pg_test_fsync.sh: broke off: $said" >&2
