# Prints what may ail a layout that stands: a look between two runs, so cheap. Usage, with sections.sh in front:
#   sh -c SECTIONS+THIS facts NONCE MOUNT POOL NODE...      MOUNT and POOL may be empty
# POSIX sh. It only looks, and nothing here waits for a disk: what each of these says the kernel has in memory.
mount=$1 pool=$2
shift 2
b=/sys/class/block
files='/proc/sys/kernel/random/boot_id /proc/mdstat /proc/self/mountinfo'
names=
for node; do
    [ -e "$node" ] || continue
    name=${node#/dev/}
    if [ -L "$node" ]; then # ours by name: /dev/md/bl17, /dev/disk/by-partlabel/…
        name=$(readlink -f "$node") || continue
        name=${name#/dev/}
    fi
    while :; do # the kernel writes cciss!c0d0 for /dev/cciss/c0d0
        case $name in */*) name=${name%%/*}!${name#*/} ;; *) break ;; esac
    done
    names="$names$node $name
"
    at=$b/$name
    files="$files $at/size $at/ro $at/device/state $at/bcache/state $at/bcache/running $at/bcache/io_errors"
done
note names "$names"
# shellcheck disable=SC2086  # paths without spaces
section files grep -aHs '' $files
note tree $b/*/holders/*

set -- $b/dm-*
if [ -e "$1" ] && there dmsetup; then # without --noflush a cache or thin pool writes before it answers
    section dmstatus dmsetup status --noflush
fi
if [ -n "$pool" ] && there zpool; then section zpool zpool status -xP "$pool"; fi
set -- /sys/fs/btrfs/*-*-* # those that are mounted
if [ -n "$mount" ] && [ -e "$1" ] && there btrfs; then
    section btrfs btrfs device stats "$mount" # fails on another file system
fi
complaints() {
    found=$(dmesg 2>/dev/null | grep -aE 'I/O [Ee]rror|medium error|nexus error|rejecting I/O to|[Rr]emounting filesystem read-only|[Ss]hut ?down|EXT4-fs error|forced readonly|bdev .* errs:') || return 0
    printf '%s\n' "$found" | tail -n 200
}
section log complaints
printf '=%s complete\n' "$nonce"
