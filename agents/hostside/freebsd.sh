# SPDX-License-Identifier: Apache-2.0
# Functions of runner.sh and sampler.sh in the words of FreeBSD's base system, which has no Linux
# /proc, no setsid and no flock. Sourced by runner.sh, in the spool directory. POSIX sh.
# A tool has no session of its own here: its processes are those of its group that work in work/.
tick=1 # looking at a process costs forks here

stamp() { # sets at: the wall clock in seconds. A file's time is the one clock with fractions that
  : >stamp # every version has; vfs.timestamp_precision=0 (FreeBSD 10) makes it whole seconds
  at=$(stat -f %Fm stamp)
}

wall() {
  stamp
}

since_boot() { # sets boot_s, boot_us: kern.boottime, which moves with the wall clock when that is set
  # shellcheck disable=SC2046
  set -- $(sysctl -n kern.boottime) # { sec = 1403796300, usec = 725700 } Thu Jun 26 15:25:00 2014
  boot_s=${4%,} boot_us=$7
}

now() { # ns = the monotonic clock: the wall clock less the time of boot
  stamp
  since_boot
  seconds=${at%.*} part=000000000
  case $at in *.*) part=${at#*.}000000000 ;; esac
  while [ ${#part} -gt 9 ]; do part=${part%?}; done
  ns=$(((seconds - boot_s) * 1000000000 + 1$part - 1000000000 - boot_us * 1000))
}

look() { # PID: sets born (seconds from boot to its birth), group; fails like runner.sh's
  # shellcheck disable=SC2046
  set -- $(LC_ALL=C TZ=UTC ps -o pgid= -o state= -o lstart= -p "$1" 2>/dev/null)
  [ $# -ge 7 ] || return 1 # 4711 S Wed Sep 30 16:04:44 2026
  case $2 in Z*) return 1 ;; esac
  group=$1
  born=$(LC_ALL=C TZ=UTC date -j -f '%a %b %d %T %Y' "$3 $4 $5 $6 $7" +%s)
  since_boot
  born=$((born - boot_s))
}

alive() { # "PID BORN"; both times are whole seconds, so one apart is the same
  [ -n "$1" ] && look "${1% *}" && apart=$((born - ${1#* })) && [ $apart -le 1 ] && [ $apart -ge -1 ]
}

own_pid() {
  # shellcheck disable=SC2016
  pid=$(exec sh -c 'echo $PPID')
}

all_pids() { # only those of the tool's group: each look costs forks
  pids=$(ps -axo pid=,pgid= | while read -r pid group; do
    [ "$group" != "$home" ] || echo "$pid"
  done)
}

works_here() { # PID
  procstat -f "$1" 2>/dev/null | grep -q " cwd v d .* $(pwd -P)/work\$"
}

being_started() { # spool.sh knows its number only
  read -r starter _ <starter && look "$starter"
}

this_boot() { # as agents/facts/freebsd.py says it
  this_boot=$(sysctl -nx kern.boot_id 2>/dev/null)
  case $this_boot in
    *0x*) this_boot=${this_boot##*0x} ;;
    *)
      this_boot=dmesg-$(stat -f %m /var/run/dmesg.boot 2>/dev/null)
      [ "$this_boot" != dmesg- ] || {
        since_boot
        this_boot=boottime-$boot_s
      }
      ;;
  esac
}

cached() { # nothing that means what Linux's figure does
  cached_kib=
}
