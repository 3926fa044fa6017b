"""Samplers' figures, against what the host's own programs say of the same seconds: within 2 %.

One job on each host, with several loads at once, for a minute of looking costs a minute.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise

import pytest

from agents.contracts import Job, Series, Shell
from agents.drivers import registry
from agents.jobs import job
from agents.samplers import dm_cache
from benchlab.practice import DiskSpec
from tests.rig.bench import shell_on

WITHIN = 0.02
Table = Mapping[tuple[str, str], Series]

# Few requests, so that a busy machine keeps up. Each other program looks from before the first to after the last of
# them: then it does not matter when exactly it looked, nor whether the machine stood still for a moment.
SPAN_S, POOL_SPAN_S = 60, 50
FIO = "fio --bs=4k --direct=1 --ioengine=libaio --iodepth=2 --time_based --output=/dev/null --runtime={seconds}"
LATE = "[ -d /proc/$theirs ] || echo too late"
REST_S = 15  # bcache adds to its counters every 13.6 s

# udev reads a disk anew some time after whoever wrote to it closed it: such reads must be over before counters are
# read that are compared, or only one of the two sees them.
QUIET = """
quiet() {
  udevadm settle; was=
  while counts=$(set -- $(dmsetup status --noflush bl17-data); echo $8 $9 ${10} ${11}); [ "$counts" != "$was" ]; do
    was=$counts; sleep 1
  done
}
"""
BUILD = f"""
{QUIET}
set -e
pvcreate -qq /dev/ubdb /dev/ubdc; vgcreate -qq bl17 /dev/ubdb /dev/ubdc
lvcreate -qq -y -L 200M -n data bl17 /dev/ubdb
lvcreate -qq -y --type cache-pool -L 64M -n fast bl17 /dev/ubdc
lvconvert -qq -y --type cache --cachemode writeback --cachepool bl17/fast bl17/data
modprobe bcache
make-bcache --writeback -B /dev/ubdd -C /dev/ube >/dev/null; udevadm settle
for n in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/bcache0 ] && break; sleep 1; done
[ -b /dev/bcache0 ]
quiet
""".replace("/dev/ube ", "/dev/ubde ")

LOADS = f"""
{QUIET}
cache() {{ dmsetup status --noflush bl17-data; }}
echo before $(cache)
iostat -dxy -o JSON ubdf {SPAN_S} 1 >iostat & theirs=$!
sleep 3
fio="{FIO.format(seconds=40)}"
$fio --name=disk --filename=/dev/ubdf --rw=randrw --rate_iops=90,60 & loads=$!
$fio --name=lvm --filename=/dev/bl17/data --rw=randrw --size=40m --rate_iops=60,40 & loads="$loads $!"
$fio --name=bcache --filename=/dev/bcache0 --rw=randread --size=40m --rate_iops=60 & loads="$loads $!"
wait $loads
quiet
{LATE}
echo after $(cache)
sleep {REST_S}
wait $theirs
tr -d '\\n' <iostat; echo
"""
# bcache adds to its counters every 13 s or so: all that they ever were, as the test itself sees it.
WATCH = """
( was=; while :; do read hits </sys/block/bcache0/bcache/stats_total/cache_hits
  read misses </sys/block/bcache0/bcache/stats_total/cache_misses
  [ "$hits $misses" = "$was" ] || echo moved $hits $misses
  was="$hits $misses"; sleep 1; done ) & watching=$!
"""
WATCHED = "kill $watching\n"  # they have moved for the last time: REST_S


@dataclass(frozen=True)
class Ran:
    series: Table
    said: str
    looks: Mapping[float, float]  # the host's clock as dmsetup was asked, by the time of the frame

    def status(self, when: str) -> list[int]:
        """read hits, read misses, write hits, write misses of dm-cache."""
        line = next(one for one in self.said.splitlines() if one.startswith(when))
        return [int(word) for word in line.split(" cache ")[1].split()[4:8]]


def run(shell: Shell, script: str) -> Ran:
    """The script as a job beside all samplers; its output, and their series."""
    spool = job.Spool("samplers")
    wanted = Job(("sh", "-c", script), drop_caches=False, timeout_s=200)
    job.start_job(shell, spool, wanted, registry.sampled_sources("debian"))
    polled = job.poll(shell, spool, 180)
    assert polled.state is job.State.EXITED, polled
    fetched = job.fetch(shell, spool)
    job.remove_spool(shell, spool)
    frames = job.frames(fetched.samples)
    found = {
        (one.device, one.metric): one
        for sampler in registry.all_samplers().values()
        for one in sampler.frames_to_series(frames)
    }
    assert fetched.log == b""
    asked = [(frame.at - frames[0].at, dm_cache.UPTIME.search(frame.files.get(dm_cache.STATUS.file_key, "")))
             for frame in frames]  # fmt: skip
    looks = {at: float(said[1]) for at, said in asked if said}
    said = fetched.files["stdout"].decode()
    assert "too late" not in said, "the other program looked no more when the load ended"
    return Ran(found, said, looks)


def total(series: Series) -> float:
    """All that there was, from rates that each hold since the time before."""
    spans = pairwise((0.0, *series.times))
    return sum(
        rate * (end - begin) for rate, (begin, end) in zip(series.values, spans, strict=True)
    )


def count(series: Series, looks: Mapping[float, float]) -> float:
    """All that was counted, from rates: each is of the time between looks, on a busy host not that between frames."""
    ends = [looks[at] for at in (0.0, *series.times)]
    return sum(
        rate * (end - begin)
        for rate, (begin, end) in zip(series.values, pairwise(ends), strict=True)
    )


@pytest.fixture(scope="module")
def ran(make_rig_host) -> Ran:
    host = make_rig_host([DiskSpec(512) for _ in range(5)])
    shell = shell_on(host)
    built = shell.run(("sh", "-c", BUILD), root=True, timeout_s=120)
    assert built.exit_code == 0, built.stderr
    return run(shell, WATCH + LOADS + WATCHED)


def test_disks_agree_with_iostat(ran):
    text = next(line for line in ran.said.splitlines() if line.startswith("{"))
    [report] = [one["disk"][0] for one in json.loads(text)["sysstat"]["hosts"][0]["statistics"]]
    for column, unit, metric in (
        ("r/s", 1, "read.iops"),
        ("w/s", 1, "write.iops"),
        ("rkB/s", 1024, "read.bandwidth"),
        ("wkB/s", 1024, "write.bandwidth"),
    ):
        theirs = report[column] * SPAN_S * unit
        assert total(ran.series["ubdf", metric]) == pytest.approx(theirs, rel=WITHIN), metric


def test_an_lvm_cache_agrees_with_dmsetup(ran):
    (device,) = {device for device, metric in ran.series if metric == "promotions"}
    counted = [b - a for a, b in zip(ran.status("before"), ran.status("after"), strict=True)]
    names = ("read.hits", "read.misses", "write.hits", "write.misses")
    found = {name: count(ran.series[device, name], ran.looks) for name in names}
    assert sum(counted) > 1000
    for name, theirs in zip(names, counted, strict=True):
        assert found[name] == pytest.approx(theirs, rel=WITHIN, abs=5), name
    ratio = [
        value for value in ran.series[device, "read.hit_ratio"].values if not math.isnan(value)
    ]
    assert 0 <= min(ratio) <= counted[0] / (counted[0] + counted[1]) <= max(ratio) <= 1


def test_bcache_agrees_with_its_own_counters(ran):
    moved = [tuple(map(int, words)) for words in re.findall(r"moved (\d+) (\d+)", ran.said)]
    hits, misses = (ran.series["bcache0", f"read.{name}"] for name in ("hits", "misses"))
    assert len(hits.times) >= 2, moved
    # Either of us may have read one counter before the kernel added to both, and the other after: so each by itself.
    for at, series in enumerate((hits, misses)):
        steps = {b[at] - a[at] for a, b in combinations(moved, 2)} | {0}
        for rate, (begin, end) in zip(series.values[1:], pairwise(series.times), strict=True):
            found = rate * (end - begin)
            assert any(found == pytest.approx(step, rel=WITHIN) for step in steps), (found, moved)


POOL = """
set -e
modprobe zfs
zpool create -f -o ashift=12 bl17 mirror vdb vdc log vdd
zfs create -o recordsize=8k -o primarycache=metadata -o compression=off bl17/data
fio --name=f --directory=/bl17/data --filename=f --rw=write --bs=128k --size=64m --end_fsync=1 >/dev/null
"""
ZLOADS = f"""
zpool iostat -vHp -y bl17 {POOL_SPAN_S} 1 >theirs & theirs=$!
sleep 6
fio="fio --directory=/bl17/data --bs=8k --time_based --output=/dev/null --runtime=30"
$fio --name=r --filename=f --rw=randread --rate_iops=60 --size=64m & loads=$!
$fio --name=w --filename=g --rw=randwrite --rate_iops=30 --size=16m --fsync=1 & loads="$loads $!"
wait $loads
{LATE}
wait $theirs
cat theirs
"""


def test_vdevs_agree_with_zpool_iostat(make_zfs_host):
    host = make_zfs_host([DiskSpec(512, serial=f"S{n}") for n in range(3)])
    shell = shell_on(host)
    built = shell.run(("sh", "-c", POOL), root=True, timeout_s=120)
    assert built.exit_code == 0, built.stderr
    ran = run(shell, ZLOADS)
    rows = [line.split("\t") for line in ran.said.splitlines() if line.count("\t") == 6]
    for name, device, column, metric in (
        ("bl17", "bl17", 5, "zpool.read.bandwidth"),
        ("bl17", "bl17", 3, "zpool.read.iops"),
        ("mirror-0", "bl17/mirror-0", 5, "zpool.read.bandwidth"),
        ("vdd", "bl17/logs/vdd", 6, "zpool.write.bandwidth"),
    ):
        [theirs] = [float(row[column]) for row in rows if row[0] == name]
        ours = total(ran.series[device, metric]) / POOL_SPAN_S
        # zpool cuts rates to whole ones, in each of its reports.
        assert ours == pytest.approx(theirs, rel=WITHIN, abs=1), metric
    assert ran.series["", "arc.size"].values[-1] > 0
