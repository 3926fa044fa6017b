# SPDX-License-Identifier: Apache-2.0
# Prints what may ail a layout that stands: a look between two runs, so cheap. Usage, with sections.sh in front:
#   sh -c SECTIONS+THIS facts NONCE MOUNT POOL NODE...      MOUNT and POOL may be empty
# POSIX sh. It only looks, and nothing here waits for a disk: what each of these says the kernel has in memory.
mount=$1 pool=$2
shift 2
b=/sys/class/block
files='/proc/sys/kernel/random/boot_id /proc/mdstat /proc/self/mountinfo'
# What a run is measured under: as in facts.sh, by which the layout was verified
for path in /proc/sys/vm/dirty* /proc/sys/vm/swappiness /proc/sys/vm/vfs_cache_pressure \
    /proc/sys/vm/min_free_kbytes /proc/sys/vm/page-cluster /proc/sys/vm/zone_reclaim_mode \
    /proc/sys/vm/laptop_mode /proc/sys/vm/watermark_* /proc/sys/vm/nr_hugepages \
    /proc/sys/dev/raid/speed_limit_* /proc/sys/fs/xfs/*_centisecs \
    /sys/devices/system/cpu/cpufreq/policy*/scaling_governor; do
    files="$files $path"
done
names= gone=
for node; do
    if [ ! -e "$node" ]; then
        gone=yes
        continue
    fi
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
    files="$files $at/size $at/ro $at/device/state"
    for attribute in scheduler nr_requests read_ahead_kb nomerges rq_affinity write_cache; do
        files="$files $at/queue/$attribute"
    done
    for attribute in state running io_errors cache_mode sequential_cutoff writeback_percent writeback_delay \
        writeback_running discard cache_replacement_policy readahead_cache_policy; do
        files="$files $at/bcache/$attribute"
    done
    for attribute in stripe_cache_size group_thread_cnt preread_bypass_threshold skip_copy; do
        files="$files $at/md/$attribute"
    done
done
note names "$names"
# shellcheck disable=SC2086  # paths without spaces
section files grep -aHs '' $files
note tree $b/*/holders/*

set -- $b/dm-*
if [ -e "$1" ] && there dmsetup; then # without --noflush a cache or thin pool writes before it answers
    section dmstatus dmsetup status --noflush
    section dmsetup dmsetup table
fi
if [ -n "$pool" ] && there zpool; then
    section zpool zpool status -xP "$pool"
    state= # old versions do not say it
    [ ! -e "/proc/spl/kstat/zfs/$pool/state" ] || read -r state <"/proc/spl/kstat/zfs/$pool/state"
    # Of a pool that waits for a disk these two would wait too, for ever
    if [ "$state" != SUSPENDED ] && [ -z "$gone" ]; then
        section zpool_get zpool get -Hp all "$pool"
        section zfs_get zfs get -Hpr -t filesystem,volume all "$pool"
    fi
fi
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
