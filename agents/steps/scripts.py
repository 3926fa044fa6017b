# SPDX-License-Identifier: Apache-2.0
"""The scripts that several layers give to sh, and what their arguments are: the guard reads each as it was written.

A script is a constant: what differs from host to host is an argument. Whoever changes one or adds one says below what
it takes; a layer that is the only one to use a script has it in its own `SCRIPTS`. Of a script that is in neither every
word counts as a name that it could harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# One opening of each node: udev reads a disk again after every program that had it open for writing.
ZERO = (
    "node=; while [ $# -gt 1 ]; do"
    ' if [ "$1" != "$node" ] || [ "$2" -lt "$end" ]; then exec 3<>"$1" || exit; node=$1 end=0; fi;'
    " dd if=/dev/zero bs=64k count=16 seek=$(($2 - end)) oflag=seek_bytes conv=fsync >&3 || exit;"
    " end=$(($2 + 1048576)); shift 2; done"
)
# No seek in bytes there, and a disk takes whole sectors only, whose size it says itself.
ZERO_FREEBSD = (
    'while [ $# -gt 1 ]; do sector=$(diskinfo "$1" | cut -f 2); dd if=/dev/zero of="$1"'
    ' bs="$sector" count=$((1048576 / sector)) seek=$(($2 / sector)) || exit; shift 2; done'
)
# udev and others may have it open for a moment: mdadm then says "Cannot get exclusive access".
MD_STOP = (
    'cd /sys/class/block || exit; n=0; while [ -e "${1##*/}/md" ]; do mdadm --stop "$1" && break;'
    " n=$((n + 1)); [ $n -lt 10 ] || exit 1; sleep 0.5; done"
)
MD_CLEAR = (
    'at=$1; shift; for node; do dd if=/dev/zero of="$node" bs=1M count=1 seek="$at" conv=fsync'
    " || exit; done"
)
# udev registers a new superblock too, and the loser of that race gets EINVAL or EBUSY.
BCACHE_REGISTER = """
[ -e /sys/fs/bcache/register ] || modprobe bcache || exit
cd /sys/class/block || exit
for node; do
    name=$(readlink -f "$node") && name=${name##*/} || exit
    n=0
    until [ -e "$name/bcache" ]; do
        echo "$node" 2>/dev/null >/sys/fs/bcache/register
        [ -e "$name/bcache" ] && break
        n=$((n + 1))
        [ "$n" -lt 50 ] || { echo "$node: the kernel does not register it: see dmesg" >&2; exit 1; }
        sleep 0.2
    done
    until [ -e "$name/bcache/set" ] || [ -e "$name/bcache/cache" ]; do
        n=$((n + 1))
        [ "$n" -lt 50 ] || { echo "$node: registered, but not attached to its cache" >&2; exit 1; }
        sleep 0.2
    done
done
"""
BCACHE_SET = """
name=$(readlink -f "$1") && cd /sys/class/block && cd "${name##*/}/bcache" || exit
echo "$2" >label && echo "$3" >cache_mode && echo "$4" >sequential_cutoff && echo "$5" >writeback_percent
"""
# "stop" leaves dirty blocks in the cache; "unregister" and "detach" would write them back first. A disk that was pulled
# out is in no directory of its own any more: then its set is reached by its UUID, and its volume by our label.
BCACHE_RELEASE = """
set=$1 own=$2
shift 2
cd /sys/class/block || exit
names=
for node; do
    name=$(readlink -f "$node") && names="$names ${name##*/}"
done
for name in bcache*; do
    read -r label 2>/dev/null <"$name/bcache/label" || continue
    case $label in "$own" | "$own"-*) names="$names $name" ;; esac
done
for name in $names; do
    for file in "$name/bcache/stop" "$name/bcache/set/stop"; do
        [ ! -e "$file" ] || echo 1 >"$file"
    done
done
[ ! -e "$set/stop" ] || echo 1 >"$set/stop"
n=0
while :; do
    left=
    for name in $names; do
        [ ! -e "$name/bcache" ] || left="$left $name"
    done
    [ ! -e "$set" ] || left="$left ${set##*/}"
    [ "$left" ] || exit 0
    n=$((n + 1))
    [ "$n" -lt 150 ] || { echo "bcache still holds$left" >&2; exit 1; }
    sleep 0.2
done
"""
# Those that are still there, in one go: a fork for each would take most of the time. A line is a name: one of another's
# may hold ours as a word. For a moment udev reads a volume that was written to, and nobody can remove it: --retry looks
# again after 0.2 s only, so the first second goes without. Nobody waits for udev here: what comes after the disks are
# erased does.
DM_REMOVE = """
n=0
end='
'
while :; do
    there=$(dmsetup info --columns --noheadings -o name) || exit
    for name do
        shift
        case $end$there$end in *"$end$name$end"*) set -- "$@" "$name" ;; esac
    done
    [ $# != 0 ] || exit 0
    n=$((n + 1))
    [ $n -lt 20 ] || exec dmsetup remove --noudevsync --retry "$@"
    dmsetup remove --noudevsync "$@" 2>/dev/null && exit
    sleep 0.02
done
"""
# fast_remove leaves dirty blocks where they are: removing a writeback cache would write all of them back first.
FLASHCACHE_REMOVE = (
    'cd /proc/sys/dev/flashcache 2>/dev/null && [ -e "$2+$3/fast_remove" ] &&'
    ' echo 1 >"$2+$3/fast_remove"; dmsetup remove --retry "$1"'
)
# The node comes after the command has ended: "settle" alone may be too early (docs/layers.md).
ZVOL_WAIT = (
    'n=0; until [ -e "$1" ]; do n=$((n + 1)); if [ $n -gt 300 ]; then'
    ' echo "$1 did not come in 30 s" >&2; exit 1; fi; sleep 0.1; done'
)
# tee says why the kernel refuses, sh does not.
# A path may have gone: a disk pulled out, a module unloaded, another kernel after a reboot.
QUEUE_WRITE = 'v=$1; shift; for f; do [ ! -e "$f" ] || printf "%s\\n" "$v" | tee "$f" || exit; done'
SYSCTL_SET = (
    'case $2 in */raid/*) [ -e "$2" ] || modprobe md_mod ;; esac; printf "%s\\n" "$1" | tee "$2"'
)
SYSCTL_BACK = '[ ! -e "$2" ] || printf "%s\\n" "$1" | tee "$2"'
GOVERN = 'v=$1; shift; for f; do printf "%s\\n" "$v" | tee "$f" || exit; done'
REMOVE_EMPTY = 'if [ -d "$1" ]; then rmdir "$1"; fi'
REMOVE_MARKED = 'if [ -f "$1/$2" ] && [ ! -L "$1" ]; then rm -rf --one-file-system "$1"; fi'
GPART_DESTROY = 'if gpart show "$1" >/dev/null 2>&1; then gpart destroy -F "$1"; fi'

# Kinds of argument: "path" begins with /, "setting" is a path of the kernel's below /sys or /proc/sys, "value" is what
# is written there, "number" is digits, "flag" is an option without a value, "mark" is the file that says a directory is
# ours, "name" can be the name of a group, array, pool or mapping (agents/safety). First those that come once, then
# those that go on.
ARGUMENTS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    ZERO: ((), ("path", "number")),
    ZERO_FREEBSD: ((), ("path", "number")),
    MD_STOP: (("path",), ()),
    MD_CLEAR: (("number",), ("path",)),
    BCACHE_REGISTER: ((), ("path",)),
    BCACHE_SET: (("path", "name", "value", "number", "number"), ()),
    BCACHE_RELEASE: (("setting", "name"), ("path",)),
    DM_REMOVE: ((), ("name",)),
    FLASHCACHE_REMOVE: (("name", "name", "name"), ()),
    ZVOL_WAIT: (("path",), ()),
    QUEUE_WRITE: (("value",), ("setting",)),
    SYSCTL_SET: (("value", "setting"), ()),
    SYSCTL_BACK: (("value", "setting"), ()),
    GOVERN: (("value",), ("setting",)),
    REMOVE_EMPTY: (("path",), ()),
    REMOVE_MARKED: (("path", "mark"), ()),
    GPART_DESTROY: (("path",), ()),
}
