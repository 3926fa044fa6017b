# SPDX-License-Identifier: Apache-2.0
# Prints what is known of this Linux host. Usage, with sections.sh in front:
#   sh -c SECTIONS+THIS facts NONCE ["PROGRAM ARG..."]...
# POSIX sh. It only looks. A fork costs 25 ms on a slow host: builtins and globs wherever they do.
b=/sys/class/block k=/sys/kernel/config
if [ ! -d $b ]; then # not Linux: say what it is, and leave the rest to that system's own script
    section system uname -s
    printf '=%s complete\n' "$nonce"
    exit
fi
uid=1
while read -r key uid _; do [ "$key" != Uid: ] || break; done </proc/self/status
note uid "$uid"

section files grep -aHs '' \
    /etc/os-release /proc/sys/kernel/hostname /proc/sys/kernel/osrelease /proc/sys/kernel/arch \
    /proc/sys/kernel/random/boot_id /proc/self/mountinfo /proc/swaps /proc/mdstat /proc/devices \
    /sys/module/zfs/version \
    $b/*/dev $b/*/size $b/*/ro $b/*/removable $b/*/partition $b/*/wwid $b/*/serial \
    $b/*/device/wwid $b/*/device/serial $b/*/device/model $b/*/device/vendor \
    $b/*/device/rev $b/*/device/firmware_rev \
    $b/*/eui $b/*/nguid $b/*/uuid $b/*/device/cid $b/*/device/vpd_pg80 $b/*/device/vpd_pg83 \
    $b/*/device/../../../link*/ata_link/link*/sata_spd $b/*/device/../../../../speed \
    $b/*/device/../../../phy-*/sas_phy/phy-*/negotiated_linkrate \
    $b/nvme*/device/device/current_link_* $b/nvme*/device/nvme*/device/current_link_* \
    $b/*/queue/rotational $b/*/queue/logical_block_size $b/*/queue/physical_block_size \
    $b/*/queue/scheduler $b/*/dm/name $b/*/bcache/label \
    $b/loop*/loop/backing_file $b/loop*/loop/offset $b/loop*/loop/sizelimit $b/zram*/backing_dev \
    $k/target/core/*/*/info $k/target/core/*/*/udev_path $k/nvmet/subsystems/*/namespaces/*/device_path \
    $k/nvmet/subsystems/*/passthru/device_path $k/usb_gadget/*/functions/*/lun.*/file \
    /sys/kernel/scst_tgt/devices/*/filename /sys/fs/bcachefs/*/dev-*/block/dev \
    /sys/class/rnbd-server/ctl/devices/*/block_dev/dev /sys/bus/xen-backend/devices/*/physical_device \
    $b/*/bcache/state $b/*/bcache/running $b/*/bcache/cache_mode $b/*/bcache/dirty_data \
    $b/*/bcache/sequential_cutoff $b/*/bcache/writeback_percent $b/*/bcache/discard \
    $b/*/bcache/bucket_size $b/*/bcache/block_size $b/*/bcache/writeback_delay $b/*/bcache/writeback_running \
    $b/*/bcache/cache_replacement_policy $b/*/bcache/readahead_cache_policy \
    $b/md*/md/stripe_cache_size $b/md*/md/group_thread_cnt $b/md*/md/preread_bypass_threshold $b/md*/md/skip_copy \
    $b/*/queue/read_ahead_kb $b/*/queue/nr_requests $b/*/queue/nomerges $b/*/queue/rq_affinity $b/*/queue/write_cache \
    /proc/sys/vm/dirty* /proc/sys/vm/swappiness /proc/sys/vm/vfs_cache_pressure \
    /proc/sys/vm/min_free_kbytes /proc/sys/vm/page-cluster /proc/sys/vm/zone_reclaim_mode \
    /proc/sys/vm/laptop_mode /proc/sys/vm/watermark_* /proc/sys/vm/nr_hugepages \
    /proc/sys/dev/raid/speed_limit_* /proc/sys/fs/aio-max-nr /proc/sys/fs/file-max \
    /proc/sys/fs/xfs/*_centisecs /sys/devices/system/cpu/cpufreq/policy*/scaling_governor \
    /sys/devices/system/cpu/cpufreq/policy*/scaling_available_governors
# Another mount namespace (a container's) may hold a disk that this one does not show.
elsewhere=
if [ "$uid" = 0 ]; then
    for space in /proc/[0-9]*/ns/mnt; do
        [ "$space" -ef /proc/self/ns/mnt ] || elsewhere="$elsewhere ${space%/ns/mnt}/mountinfo"
    done
fi
# shellcheck disable=SC2086  # a list of paths without spaces
section picked grep -aHsE '^(S:|E:MD_DEVNAME=|processor|model name|cpu model|Hardware|MemTotal|[0-9]+ [0-9]+ [1-9][0-9]*:)| - (btrfs|bcachefs) ' \
    /proc/cpuinfo /proc/meminfo /run/udev/data/b* $elsewhere
read -r release </proc/sys/kernel/osrelease
note schedulers "/lib/modules/$release/kernel/block"/*.ko*
note tree $b/*/holders/* $b/*/slaves/* /sys/block/*/*/partition $b/*/bcache \
    $b/*/device/scsi_device/* \
    /sys/fs/btrfs/*/devices/*
# Who serves devices, and all that the section "files" must have an answer of. Brackets: nothing, where there is none.
note served /sys/module/target_core_mo[d] /sys/module/nvme[t] /sys/module/drb[d] $k/targe[t] $k/nvme[t] \
    $k/target/core/*/*/info $k/nvmet/subsystems/*/namespaces/*/device_path \
    $k/nvmet/subsystems/*/passthru/device_path \
    /sys/class/nvme/nvme*/nvme*n* /sys/class/scsi_device/*/device/block/* $b/drbd[0-9]* /proc/fs/jbd2/* \
    /sys/class/raw/raw[0-9]*
[ -e /proc/sys/kernel/arch ] || section arch uname -m

# Every column here is known to util-linux 2.23. --pairs is the one format that every version has.
section lsblk lsblk -abPo NAME,KNAME,MAJ:MIN,TYPE,RO,RM,ROTA,SCHED,MODEL,VENDOR,SERIAL,WWN,TRAN
[ "$code" = 0 ] || section lsblk lsblk -abPo NAME,KNAME,MAJ:MIN,TYPE,SIZE

each_node() { # COMMAND ARG...: called as COMMAND ARG... KERNEL-NAME NODE
    for device in $b/*; do
        name=${device##*/}
        [ -e "$device/dev" ] || continue # no node: a hidden path of NVMe's own multipath
        size=0
        read -r size 2>/dev/null <"$device/size"
        case $size:$name in 0:* | *:ram* | *:'*') continue ;; esac
        case $stalled:$name in yes:zd[0-9]*) continue ;; esac
        node=$name # the kernel writes cciss!c0d0 for /dev/cciss/c0d0
        while :; do
            case $node in *!*) node=${node%%!*}/${node#*!} ;; *) break ;; esac
        done
        "$@" "$name" "/dev/$node"
    done
}
waits_for_disk() { # a pool does, so whoever reads a zvol would: for ever, and nothing ends that
    [ -e "$1" ] || return 1
    there zpool || return 1
    told=$(zpool status -P 2>/dev/null </dev/null)
    while read -r word state _; do
        case $word:$state in
            state::SUSPENDED | state::UNAVAIL | state::FAULTED) return 0 ;;
            /dev/*:ONLINE | /dev/*:DEGRADED) [ -b "$word" ] || return 0 ;; # open still, and pulled out
        esac
    done <<EOF
$told
EOF
    return 1
}
unread() { # NAME
    printf '=%s begin wipefs %s\n\n=%s end 1\n%s\n=%s done\n' "$nonce" "$1" "$nonce" \
        "its pool waits for a disk, and so would whoever reads it" "$nonce"
}
collect() {
    nodes="$nodes $2"
    case $1 in dm-*) mapped=yes ;; *) return ;; esac
    read -r volume 2>/dev/null <"$b/$1/dm/name"
    case $volume in *_rimage_*) raid=yes ;; esac # a mirror of LVM's: how far is it?
}
pools() { # zpool status answers for a suspended pool too; the other two would wait for ever
    if [ ! -e /sys/module/zfs ]; then
        section modinfo modinfo -F version zfs
        return
    fi
    section zpool zpool status -P
    own=
    for pool in /proc/spl/kstat/zfs/*/; do
        state= # old versions do not say it
        [ ! -e "$pool/state" ] || read -r state <"$pool/state"
        pool=${pool%/}
        pool=${pool##*/}
        case $state:$pool in
            SUSPENDED:* | *:*[!a-z0-9]*) ;;
            *:bl*[0-9]) own="$own $pool" ;; # named like a layout: see benchlab.runs.models
        esac
    done
    # shellcheck disable=SC2086  # names without spaces
    if [ -n "$own" ]; then
        section zpool_get zpool get -Hp all $own
        section zfs_get zfs get -Hpr -t filesystem,volume all $own
    fi
}
signatures() { section "wipefs $1" wipefs -p "$2"; }
# Whose set it is, no other tool shows for a device that is not registered: UUID and label, 48 bytes.
superblock() { section "bcache $1" od -An -v -tx1 -j4152 -N48 "$2"; }
bcaches() {
    if [ "$wiped" != 0 ]; then
        if [ -e /sys/fs/bcache ]; then each_node superblock; fi
        return
    fi
    while IFS=, read -r name _ _ _ kind; do
        case $kind in *bcache) superblock "$name" "/dev/$name" ;; esac
    done <<EOF
$found
EOF
}
# libblkid does not tell how many devices a btrfs has: its superblock at 64 KiB, up to that number.
btrfs_superblock() { section "btrfs $1" od -An -v -tx1 -j65536 -N144 "$2"; }
btrfses() {
    if [ "$wiped" != 0 ]; then
        each_node btrfs_superblock
        return
    fi
    while IFS=, read -r name _ _ _ kind; do
        case $kind in *btrfs) each_node only "$name" ;; esac
    done <<EOF
$found
EOF
}
# Where the first one is overwritten its copies are still there, and wipefs does not look at them. dd: every od reads, and
# not every one seeks, through 256 GiB.
btrfs_copies() { # KERNEL-NAME NODE
    case $1 in dm-* | md* | bcache* | zd* | zram*) return ;; esac
    for holder in "$b/$1"/holders/*; do [ ! -e "$holder" ] || return 0; done
    [ "$size" -lt 131080 ] || section "copy64M $1" dd if="$2" bs=512 skip=131072 count=1
    [ "$size" -lt 536870920 ] || section "copy256G $1" dd if="$2" bs=512 skip=536870912 count=1
}
only() { # NODE'S LAST PART, KERNEL-NAME, NODE
    [ "${3##*/}" != "$1" ] || btrfs_superblock "$2" "$3"
}
# The beginning of every device, for what libblkid does not know: agents/facts/block.py. One process for all of them.
beginnings() { # NODE...
    head -v -c 12288 "$@"
}
# The end of every device, for the same. Before 8.30 tail may read a whole disk to come there; dd takes a process each.
endings() { # NODE...
    told=$(tail --version 2>/dev/null </dev/null)
    case $told in
        *'(GNU coreutils) 8.3'[0-9]* | *'(GNU coreutils) 9.'* | *'(GNU coreutils) '[1-9][0-9].*) tail -v -c 32768 "$@" ;;
        *) each_node ending ;;
    esac
}
ending() { # KERNEL-NAME NODE
    from=0
    [ "$size" -le 64 ] || from=$((size - 64))
    echo
    head -v -c 0 "$2"
    dd if="$2" bs=512 skip=$from count=64 2>/dev/null
}
packed() { # COMMAND NODE...
    if there gzip; then "$@" | gzip -1; else "$@"; fi
}
grouped() { # Has each physical volume a volume on it? Then that one's name tells the group; pvs is slow.
    while IFS=, read -r name _ _ _ kind; do
        case $kind in *LVM2_member) ;; *) continue ;; esac
        for volume in "$b/$name"/holders/*; do
            uuid=
            [ ! -e "$volume/dm/uuid" ] || read -r uuid <"$volume/dm/uuid"
            case $uuid in LVM-*) ;; *) return 1 ;; esac
        done
    done <<EOF
$found
EOF
}
# Programs that have a block device open for writing without O_EXCL, which nothing else shows: virtual machines.
openers() {
    said= held= far=
    for sign in /proc/fs/nfsfs/servers /proc/fs/cifs /proc/fs/lustre /sys/fs/fuse/connections/[0-9]*; do
        [ ! -e "$sign" ] || far=yes
    done
    # A file on a server that is gone would not let itself be looked at: then by names, which costs forks.
    if [ -n "$far" ]; then
        # shellcheck disable=SC2046  # paths without spaces
        set -- $(named)
    else
        set -- /proc/[0-9]*/fd/*
    fi
    for place; do
        [ -b "$place" ] || continue
        owner=${place%/fd/*}
        if ! writes "$owner/fdinfo/${place##*/}" || serves "$owner" "$place"; then continue; fi
        program=
        read -r program 2>/dev/null <"$owner/comm"
        held="$held $place"
        said="$said$place $program
"
    done
    if [ -n "$held" ]; then
        note openers "$said"
        # shellcheck disable=SC2086  # paths without spaces
        section opened ls -lnL $held
    fi
}
named() { # descriptors whose links say /dev/...
    # shellcheck disable=SC2012  # not every find tells where a link leads; these names are numbers
    ls -ln /proc/[0-9]*/fd 2>/dev/null | sed -n '
        /^\/proc\/[0-9]*\/fd:$/{
            h
            d
        }
        /^l.w.* -> \/dev\//!d
        / -> \/dev\/null$/d
        / -> \/dev\/pts\//d
        / -> \/dev\/shm\//d
        G
        s|^.* \([0-9]*\) -> .*\n\(/proc/[0-9]*/fd\):$|\2/\1|p'
}
writes() { # FDINFO: the last digit of its flags is 1 for writing and 2 for both
    flags=
    while read -r key flags; do [ "$key" != flags: ] || break; done 2>/dev/null <"$1"
    case $flags in *[12]) ;; *) return 1 ;; esac
}
serves() { # /proc/PID DESCRIPTOR: what serves an nbd has it open, and does not use it
    for server in "$b"/nbd*/pid; do
        [ -e "$server" ] || continue
        task=none
        read -r task 2>/dev/null <"$server"
        server=${server%/pid}
        [ ! -e "$1/task/$task" ] || [ ! "$2" -ef "/dev/${server##*/}" ] || return 0
    done
    return 1
}
# What the kernel opened by a path to serve it or to stand on it: a file, or a device under whatever name.
opened_paths() {
    set --
    for place in $k/target/core/*/*/info; do
        [ -e "$place" ] || continue
        while IFS= read -r line; do
            case $line in *'File: '*'  Size: '*) ;; *) continue ;; esac
            path=${line#*File: }
            set -- "$@" "${path%  Size: *}"
        done 2>/dev/null <"$place"
    done
    for place in $k/target/core/*/*/udev_path $k/nvmet/subsystems/*/namespaces/*/device_path \
        $k/nvmet/subsystems/*/passthru/device_path $k/usb_gadget/*/functions/*/lun.*/file \
        /sys/kernel/scst_tgt/devices/*/filename $b/zram*/backing_dev; do
        path=
        [ ! -e "$place" ] || IFS= read -r path 2>/dev/null <"$place"
        set -- "$@" "$path"
    done
    for place in /sys/fs/xfs/*/log /sys/module/xfs /sys/module/jfs /sys/module/reiserfs /sys/module/erofs; do
        [ -e "$place" ] || continue
        set -f # a file system's log on another device
        # shellcheck disable=SC2086,SC2013  # a list of paths without spaces; words without spaces
        for word in $(grep -ohsE '[ ,](logdev|rtdev|jdev|device)=[^, ]+' /proc/self/mountinfo $elsewhere | sort -u); do
            set -- "$@" "${word#*=}"
        done
        set +f
        break
    done
    for place in $b/drbd[0-9]*; do
        if [ ! -e "$place" ] || ! shown=$(drbdsetup show 2>/dev/null </dev/null); then break; fi
        note drbd "$shown"
        while read -r key path _; do
            case $key in disk | meta-disk | flexible-meta-disk) ;; *) continue ;; esac
            path=${path#\"}
            set -- "$@" "${path%%\"*}"
        done <<EOF
$shown
EOF
        break
    done
    for place in /sys/class/raw/raw[0-9]*; do
        [ ! -e "$place" ] || section raw raw -qa
        break
    done
    served=
    for path; do # what a container or a chroot set up, its own paths lead to
        shift
        case $path in /*) ;; *) continue ;; esac
        [ -n "$served" ] || different_roots
        served=yes
        set -- "$@" "$path"
        for root in $roots; do set -- "$@" "$root/root$path"; done
    done
    loops=
    for place in $b/loop*/loop/backing_file; do
        path=
        [ ! -e "$place" ] || IFS= read -r path 2>/dev/null <"$place"
        case $path in /*) loops=yes && set -- "$@" "$path" ;; esac
    done
    limit= # a server that is gone does not answer
    [ -z "$far" ] || ! there timeout || limit='timeout -s KILL 10'
    # shellcheck disable=SC2086  # the words of a command
    [ -z "$loops" ] || section losetup $limit losetup -l -O NAME,BACK-MAJ:MIN,BACK-INO
    # shellcheck disable=SC2086
    [ $# = 0 ] || section backing $limit stat -L -c '%d %i %t %T %f %n' "$@"
}
different_roots() { # processes with a root or mounts of their own, one of each kind
    roots=
    for task in /proc/[0-9]*; do
        [ -e "$task/root" ] || continue
        for other in /proc/self $roots; do
            if [ "$task/ns/mnt" -ef "$other/ns/mnt" ] && [ "$task/root" -ef "$other/root" ]; then continue 2; fi
        done
        roots="$roots $task"
    done
}
root_only() {
    openers
    opened_paths
    nodes= mapped= raid= volume= stalled=
    if waits_for_disk $b/zd[0-9]*; then
        stalled=yes
        for zvol in $b/zd[0-9]*; do unread "${zvol##*/}"; done
    fi
    each_node collect
    # One fork for all of them where wipefs can (2.31 on) and every device answers; else one each.
    # shellcheck disable=SC2086
    found=$(wipefs -p -O DEVICE,OFFSET,UUID,LABEL,TYPE $nodes 2>/dev/null </dev/null)
    wiped=$?
    if [ "$wiped" = 0 ]; then note signatures "$found"; else each_node signatures; fi
    # shellcheck disable=SC2086  # paths without spaces
    [ -z "$nodes" ] || section heads packed beginnings $nodes
    # shellcheck disable=SC2086
    [ -z "$nodes" ] || section tails packed endings $nodes
    each_node btrfs_copies
    case $wiped:$found in 0:*,bcache* | [!0]*) bcaches ;; esac
    case $wiped:$found in 0:*,btrfs* | [!0]*) btrfses ;; esac
    case $wiped:$found in 0:*LVM2_member* | [!0]*)
        if there pvs && { [ "$wiped" != 0 ] || ! grouped; }; then
            section pvs pvs --noheadings --separator '|' -o pv_name,vg_name
        fi
        ;;
    esac
    if [ -n "$mapped" ] && there dmsetup; then
        section dmsetup dmsetup table
        [ -z "$raid" ] || section dmstatus dmsetup status --target raid
    fi
    if there zpool; then pools; fi
}
[ "$uid" != 0 ] || root_only

versions "$@"
printf '=%s complete\n' "$nonce"
