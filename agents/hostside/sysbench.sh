#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh sysbench.sh PLACE prepare|new SYSBENCH-ARGUMENT...   Runs its fileio test in a new directory that is removed again.

place=$1 first=$2
shift 2
rm -rf -- "$place" # of a run that was killed
mkdir -- "$place" || exit
trap 'rm -rf -- "$place"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
there() ( cd -- "$place" && exec sysbench fileio "$@" )
if [ "$first" = prepare ]; then
    there "$@" prepare >prepare.txt 2>&1 || {
        sed 's/^/prepare: /' prepare.txt >&2
        exit 1
    }
    forget
fi
told() ( # never the first to go: what sysbench says when it is stopped passes, too
    trap '' INT TERM
    began=
    while IFS= read -r line; do
        case $began:$line in
            ':Threads started!') mark began && began=yes ;;
            :* | yes: | 'yes:[ '*) ;;
            *) mark ended && began= ;;
        esac
        printf '%s\n' "$line"
    done
    [ -z "$line" ] || printf '%s' "$line"
)
{ there "$@" run; echo $? >exit-code; } | told
ended
