"""Disks with a pace of their own on a practice host: so many bytes a second, whatever else the machine does.

A SlowDisk takes its delay and, on top, what a busy machine takes for each request: twice as much of it, and the disk
is another one. Here nbdkit counts bytes, and makes up for what came late as far as half a second goes.
"""

from __future__ import annotations

from benchlab.practice import PracticeHost

BURST_S = 0.5  # of its pace that a disk which rested may make up for at once
SIZE_MB = 64

SERVE = f"""
modprobe nbd
mkdir -p /etc/practice
echo "$1 memory {SIZE_MB}M {SIZE_MB}M 1 0ms $2" >>/etc/practice/slow-disks
[ -z "$3" ] || echo "$3" >"/run/pace-$1"
nbdkit -U "/run/paced-$1" -t 1 --filter=rate memory {SIZE_MB}M "rate-file=/run/pace-$1" burstiness={BURST_S}
nbd-client -unix "/run/paced-$1" "/dev/nbd$1" -b 512 >/dev/null
udevadm settle
"""

# A program that is only asked for its version reads nothing of the disk; who looks at the disk is no fio.
SLOW_DOWN = """
while sleep 0.1; do
  read -r reads _ <"/sys/block/nbd$1/stat"
  pgrep -x fio >/dev/null || before=$reads
  [ "$((reads - ${before:-$reads}))" -le 50 ] || break
done
sleep "$2"
echo "$3" >"/run/pace-$1"
"""


def add(rig: PracticeHost, number: int, bandwidth: int = 0) -> str:
    """A disk of so many B/s each way, without a limit where none is given; its name, "nbd5". Gone with the boot."""
    pace = f"{8 * bandwidth}" if bandwidth else ""
    rig.ssh("sh", "-euc", SERVE, "paced", f"{number}", f"PACED-{number}", pace)
    return f"nbd{number}"


def slow_down_once_fio_reads(
    rig: PracticeHost, number: int, seconds: float, bandwidth: int
) -> None:
    """The disk goes so many seconds as fast as it can, from when the next fio reads it, and then at that pace."""
    words = ("paced", f"{number}", f"{seconds}", f"{8 * bandwidth}")
    rig.ssh("sh", "-c", '"$@" </dev/null >/dev/null 2>&1 &', "sh", "sh", "-uc", SLOW_DOWN, *words)
