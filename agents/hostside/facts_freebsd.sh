# SPDX-License-Identifier: Apache-2.0
# Prints what is known of this FreeBSD host. Usage, with sections.sh in front:
#   sh -c SECTIONS+THIS facts NONCE ["PROGRAM ARG..."]...
# POSIX sh and FreeBSD's base system, 10 and later. It only looks.
note uid "$(id -u)"
section system uname -s
section sysctl sysctl kern.hostname kern.osrelease hw.machine hw.model hw.ncpu hw.physmem kern.boottime
section boot_id sysctl -nx kern.boot_id       # FreeBSD 13 and later
section booted stat -f %m /var/run/dmesg.boot # before that: written once, at boot
section mounts mount -p
section swaps swapinfo -k
mesh=$(sysctl -n kern.geom.confxml)
note geom "$mesh"
# zpool would load the module where it is not loaded; then there is no pool either.
if kldstat -q -m zfs; then
    section zpool zpool status -P
    [ "$code" = 0 ] || section zpool zpool status # FreeBSD 10 knows no -P
    # Of pools that are named like layouts, as in facts.sh; a suspended one would let us wait for ever.
    own=$(zpool list -H -o name,health | awk '$2 != "SUSPENDED" && $1 ~ /^bl[a-z]*[0-9]+$/ { print $1 }')
    # shellcheck disable=SC2086  # names without spaces
    if [ -n "$own" ]; then
        section zpool_get zpool get -Hp all $own
        section zfs_get zfs get -Hpr -t filesystem,volume all $own
    fi
fi

KEPT=524288 # bytes from either end: the places of every signature in agents/facts/magic.py
providers() { # size, sector size and name of each; a label is another name of what it lies on
    printf '%s\n' "$mesh" | awk '
        function value() { sub(/^[^>]*>/, ""); sub(/<.*/, ""); return $0 }
        /<class id=/ { fresh = 1 }
        /<provider id=/ { inside = 1 }
        /<name>/ && fresh { class = value(); fresh = 0; next }
        /<name>/ && inside { name = value() }
        /<mediasize>/ && inside { size = value() }
        /<sectorsize>/ && inside { sector = value() }
        /<stripesize>/ && inside {
            inside = 0
            if (class != "LABEL" && size > 0 && sector > 0 && name !~ /&/) print size, sector, name
        }'
}
head_of() { # NODE
    dd if="$1" bs=131072 count=4 | gzip -1
}
tail_of() { # NODE SIZE SECTOR
    unit=$3
    for larger in 4096 16384 65536; do
        [ $(($2 % larger)) != 0 ] || [ $((larger % unit)) != 0 ] || unit=$larger
    done
    from=0
    [ "$2" -le $KEPT ] || from=$((($2 - KEPT) / unit)) # both are whole units
    dd if="$1" bs="$unit" skip="$from" count=$((KEPT / unit)) | gzip -1
}
copies_of() { # NODE SIZE SECTOR: of a btrfs's superblock, which are left where the first one is overwritten
    [ "$2" -le 67112960 ] || section "copy64M $name" dd if="$1" bs="$3" skip=$((67108864 / $3)) count=1
    [ "$2" -le 274877911040 ] || section "copy256G $name" dd if="$1" bs="$3" skip=$((274877906944 / $3)) count=1
}
if [ "$(id -u)" = 0 ]; then
    providers | while read -r size sector name; do
        section "head $name" head_of "/dev/$name"
        section "tail $name" tail_of "/dev/$name" "$size" "$sector"
        copies_of "/dev/$name" "$size" "$sector"
        if there fstyp; then section "fstyp $name" fstyp -u "/dev/$name"; fi
    done
fi

versions "$@"
printf '=%s complete\n' "$nonce"
