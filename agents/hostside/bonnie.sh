#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh bonnie.sh PLACE USER|- BONNIE-ARGUMENT...   Runs bonnie++ in a new directory that is removed afterwards.

place=$1 user=$2
shift 2
[ "$user" != - ] || user=$(id -u):$(id -g) # as root it wants to be told
rm -rf -- "$place" # of a run that was killed
mkdir -- "$place" || exit
trap 'rm -rf -- "$place"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
chown -- "$user" "$place" || exit
mark begin
{
    {
        bonnie++ -d "$place" -u "$user" "$@" 2>&1 >&3 3>&-
        echo $? >exit-code
    } | marked >&2 3>&-
} 3>&1
ended
