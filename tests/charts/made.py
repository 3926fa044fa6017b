"""A finished campaign with numbers that look like an array's, for the tests of pages and for looking at them."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from django.utils import timezone

from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.hosts.models import Credential, FactSnapshot, Host
from benchlab.runs.attempt_meta import QUEUES
from benchlab.runs.models import (
    Artifact,
    Attempt,
    Histogram,
    Layout,
    Measurement,
    Series,
    StepLog,
    Transition,
)
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome
from benchlab.team.models import Team
from benchlab.topologies.models import Topology

WINDOWS = [  # as stored with an attempt that was sampled for a minute
    {"name": "file layout", "start": 0.0, "end": 12.0, "measured": False},
    {"name": "ramp", "start": 12.0, "end": 22.0, "measured": False},
    {"name": "measured", "start": 22.0, "end": 58.0, "measured": True},
]
DEPTHS = (1, 2, 4, 8, 16, 32)


def host(team: Team, name: str = "vm-09", disks: int = 4) -> Host:
    key, _ = Credential.objects.get_or_create(
        team=team,
        name=f"key of {name}",
        defaults={"public_key": "ssh-ed25519 AAAA", "private_key": b"x"},
    )
    made = Host.objects.create(team=team, name=name, address="192.0.2.9", credential=key)
    FactSnapshot.objects.create(host=made, facts=facts(disks, name))
    return made


def facts(disks: int = 4, name: str = "vm-09") -> dict[str, Any]:
    """A stripe over `disks` disks with a file system, beside the system disk."""
    names = [f"sd{chr(98 + index)}" for index in range(disks)]
    found = [
        _device("sda", model="VBOX HARDDISK", holders=["sda1"]),
        _device("sda1", type="part", parents=["sda"], mounts=["/"]),
        _device("dm-0", path="/dev/mapper/bl1-data", type="lvm", parents=names),
        *(_device(one, model="INTEL SSDSC2BB48", holders=["dm-0"]) for one in names),
    ]
    return {
        "hostname": name,
        "os_family": "debian",
        "os_name": "Debian GNU/Linux 12 (bookworm)",
        "kernel": "6.1.0-28-amd64" if name == "vm-09" else "6.12.9-amd64",
        "arch": "x86_64",
        "boot_id": f"boot of {name}",
        "cpu_model": "Xeon E5-2680 v4",
        "cpus": 16,
        "memory": 64 << 30,
        "root": True,
        "sudo": True,
        "devices": found,
    }


def _device(name: str, **given: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"path": f"/dev/{name}", "type": "disk", "size": 480 << 30,
                             "majmin": "", "model": "", "parents": [], "holders": []}  # fmt: skip
    return {"name": name, **plain, **given}


def topology(team: Team, name: str) -> Topology:
    stack = [{"kind": "lvm", "options": {"stripes": 4}, "devices": []}]
    made, _ = Topology.objects.get_or_create(team=team, name=name, defaults={"stack": stack})
    return made


def workload(team: Team, name: str = "randread 4 KiB", tool: str = "fio") -> Workload:
    made, _ = Workload.objects.get_or_create(
        team=team,
        name=name,
        tool=tool,
        options={"rw": "randread", "bs": "4k"},
        sweep={"iodepth": list(DEPTHS)},
    )
    return made


def campaign(team: Team, name: str = "Stripe sizes", repeats: int = 3) -> Campaign:
    return Campaign.objects.create(team=team, name=name, seed=1, repeats=repeats)


def swept(
    made: Campaign,
    where: Host,
    stack: Topology,
    load: Workload,
    *,
    top: float = 40000.0,
    depths: Sequence[int] = DEPTHS,
    repeats: int = 3,
    seed: int = 1,
) -> list[Attempt]:
    """One line: every depth and repeat succeeded; IOPS saturate at `top`."""
    dice = random.Random(seed)
    layout = done_layout(made, where, stack)
    points = [
        Point(depth, repeat, rate(top, depth, dice))
        for repeat in range(1, repeats + 1)
        for depth in depths
    ]
    return finish_all(made, layout, load, points)


def rate(top: float, depth: int, dice: random.Random) -> float:
    return top * (1 - math.exp(-depth / 5)) * dice.uniform(0.96, 1.03)


def done_layout(made: Campaign, where: Host, stack: Topology) -> Layout:
    snapshot = where.snapshots.latest()
    layout = Layout.objects.create(
        campaign=made,
        host=where,
        topology=stack,
        stack=stack.stack,
        phase=LayoutPhase.DONE,
        outcome=Outcome.SUCCEEDED,
        plan={"claims": [{"identity": "serial:S1", "node": "/dev/sdb"}]},
        facts_ready=snapshot,
    )
    StepLog.objects.create(
        layout=layout,
        kind="apply",
        argv=["lvcreate", "-i", "4", "-I", "64k", "-l", "100%FREE", "-n", "data", layout.name],
        says="Make the striped volume",
        exit_code=0,
        stdout='  Logical volume "data" created.',
        ended_at=timezone.now(),
    )
    return layout


class Point(NamedTuple):
    """One measured point of a line."""

    depth: int | None
    repeat: int
    iops: float = 0.0
    scheduler: str = ""


def run(
    made: Campaign,
    layout: Layout,
    load: Workload,
    depth: int | None,
    repeat: int,
    scheduler: str = "",
) -> Run:
    (planned,) = plan_all(made, layout, load, [Point(depth, repeat, scheduler=scheduler)])
    return planned


def plan_all(made: Campaign, layout: Layout, load: Workload, points: Sequence[Point]) -> list[Run]:
    """A run for each point, behind those that the campaign has."""
    position = made.runs.count()
    return Run.objects.bulk_create(
        _run(made, layout, load, point, number)
        for number, point in enumerate(points, start=position + 1)
    )


def _run(made: Campaign, layout: Layout, load: Workload, point: Point, position: int) -> Run:
    swept = {"iodepth": point.depth} if point.depth else {}
    asked = {"scheduler": point.scheduler} if point.scheduler else {}
    return Run(
        campaign=made,
        host=layout.host,
        topology=layout.topology,
        workload=load,
        tool=load.tool,
        options={**load.options, **swept},
        point={**asked, **swept},
        scheduler=point.scheduler,
        outstanding=point.depth,
        repeat=point.repeat,
        position=position,
        expected_s=60,
    )


def finished(
    made: Campaign,
    layout: Layout,
    load: Workload,
    depth: int | None,
    repeat: int,
    iops: float,
    scheduler: str = "",
) -> Attempt:
    (attempt,) = finish_all(made, layout, load, [Point(depth, repeat, iops, scheduler)])
    return attempt


def finish_all(
    made: Campaign, layout: Layout, load: Workload, points: Sequence[Point]
) -> list[Attempt]:
    """An attempt for each point, with all that belongs to it, by one statement a table."""
    runs = plan_all(made, layout, load, points)
    attempts = Attempt.objects.bulk_create(
        _attempt(run, layout, point) for run, point in zip(runs, points, strict=True)
    )
    Measurement.objects.bulk_create(
        Measurement(attempt=attempt, name=name, value=value, unit=unit)
        for attempt, point in zip(attempts, points, strict=True)
        for name, (value, unit) in _figures(point).items()
    )
    Artifact.objects.bulk_create(_artifact(attempt) for attempt in attempts)
    Transition.objects.bulk_create(
        Transition(layout=layout, attempt=attempt, old=old, new=new)
        for attempt in attempts
        for old, new in WAY
    )
    return attempts


WAY = (("queued", "starting"), ("starting", "running"), ("running", "collecting"))


def _attempt(run: Run, layout: Layout, point: Point) -> Attempt:
    now = timezone.now()
    facts = f"{layout.pk} {point.depth} {point.scheduler}".strip()
    return Attempt(
        run=run,
        layout=layout,
        phase=AttemptPhase.DONE,
        outcome=Outcome.SUCCEEDED,
        facts=layout.facts_ready,
        fingerprint=hashlib.sha256(facts.encode()).hexdigest(),
        tool_version="fio-3.33",
        argv=["fio", "--output-format=json+", "--output=fio.json", "job.fio"],
        exit_code=0,
        meta={**_in_force(point.scheduler), "state": "exited", "caches": "yes", **CLOCKS},
        started_at=now,
        ended_at=now,
    )


def _artifact(attempt: Attempt) -> Artifact:
    raw = b'{"fio version": "fio-3.33"}\n'
    return Artifact(
        attempt=attempt,
        name="fio.json",
        content=raw,
        size=len(raw),
        sha256=hashlib.sha256(raw).hexdigest(),
    )


CLOCKS = {"clock_step": 0.0, "sample_bytes": 81234}


def _in_force(scheduler: str) -> dict[str, Any]:
    """Of a run that asked for one."""
    return {QUEUES: {"sdb": {"scheduler": scheduler, "nr_requests": "64"}}} if scheduler else {}


def _figures(point: Point) -> dict[str, tuple[float, str]]:
    """Value and unit by name."""
    iops, depth = point.iops, point.depth
    figures = {"iops": (iops, "op/s"), "bandwidth": (iops * 4096, "B/s")}
    if not depth:
        return figures
    total = depth / iops
    return figures | {
        "lat.mean": (total, "s"),
        "clat.mean": (total * 0.98, "s"),
        "clat.p50": (total * 0.9, "s"),
        "clat.p99": (total * 3.1, "s"),
        "clat.p99.9": (total * 7.9, "s"),
    }


def sampled(attempt: Attempt, disks: int = 4, seconds: int = 60, iops: float = 30000.0) -> None:
    """Series as diskstats and cpu give them: a volume over equal disks, an idle system disk, a busy host."""
    dice = random.Random(7)
    times = [float(second) for second in range(1, seconds + 1)]
    rows = []
    for device, share in [
        ("sda", 0.0),
        ("dm-0", 1.0),
        *((f"sd{chr(98 + i)}", 1 / disks) for i in range(disks)),
    ]:
        rates = [
            iops * share * (1 + 0.06 * math.sin(at / 7)) * dice.uniform(0.95, 1.05) for at in times
        ]
        waits = [dice.uniform(0.00025, 0.00045) if share else math.nan for _ in times]
        rows += [
            ("diskstats", device, "read.iops", "op/s", rates),
            ("diskstats", device, "write.iops", "op/s", [0.0] * seconds),
            ("diskstats", device, "read.bandwidth", "B/s", [value * 4096 for value in rates]),
            ("diskstats", device, "write.bandwidth", "B/s", [0.0] * seconds),
            ("diskstats", device, "await", "s", waits),
            (
                "diskstats",
                device,
                "queue",
                "1",
                [a * (0 if w != w else w) for a, w in zip(rates, waits, strict=True)],
            ),
            (
                "diskstats",
                device,
                "util",
                "1",
                [min(1.0, share * 3 * dice.uniform(0.8, 1)) for _ in times],
            ),
        ]
    for metric, level in (
        ("cpu.user", 0.12),
        ("cpu.system", 0.2),
        ("cpu.iowait", 0.3),
        ("cpu.idle", 0.38),
    ):
        rows.append(("cpu", "", metric, "1", [level * dice.uniform(0.9, 1.1) for _ in times]))
    Series.objects.bulk_create(
        Series(attempt=attempt, sampler=s, device=d, metric=m, unit=u, times=times, values=v)
        for s, d, m, u, v in rows
    )


def sampled_caches(attempt: Attempt, seconds: int = 60) -> None:
    """Series as the samplers of caches, pools and arrays give them; the stripe is a cached volume here."""
    dice = random.Random(5)
    times = [float(second) for second in range(1, seconds + 1)]

    def level(low: float, high: float) -> list[float]:
        return [dice.uniform(low, high) for _ in times]

    warm = [1 - math.exp(-at / 20) * dice.uniform(0.95, 1) for at in times]
    rows = [
        ("dm_cache", "dm-0", "hit_ratio", "1", warm),
        ("dm_cache", "dm-0", "read.hit_ratio", "1", [math.nan, *warm[1:]]),
        ("dm_cache", "dm-0", "dirty", "B", [value * 3 * 2**30 for value in warm]),
        ("dm_cache", "dm-0", "promotions", "op/s", [900 * (1 - value) for value in warm]),
        ("arcstat", "", "arc.hit_ratio", "1", warm),
        ("arcstat", "", "arc.size", "B", level(6e9, 7e9)),
        ("mdstat", "md127", "sync.done", "1", [at / 2 / seconds for at in times]),
        ("mdstat", "md127", "degraded", "1", [1.0 for _ in times]),
    ]
    for device, share in (("bl1", 1.0), ("bl1/mirror-0", 0.8), ("bl1/mirror-0/sdb", 0.4),
                          ("bl1/mirror-0/sdc", 0.4), ("bl1/logs/sdd", 0.2)):  # fmt: skip
        rates = [4000 * share * dice.uniform(0.9, 1.1) for _ in times]
        rows += [("zpool", device, "zpool.write.iops", "op/s", rates),
                 ("zpool", device, "zpool.write.bandwidth", "B/s", [8192 * r for r in rates]),
                 ("zpool", device, "zpool.read.wait", "s", [math.nan for _ in times])]  # fmt: skip
    Series.objects.bulk_create(
        Series(attempt=attempt, sampler=s, device=d, metric=m, unit=u, times=times, values=v)
        for s, d, m, u, v in rows
    )
    Series.objects.create(attempt=attempt, sampler="bcache", device="bcache0", metric="read.hit_ratio",
                          unit="1", times=[18.0, 32.1, 45.2], values=[0.32, 0.31, 0.33])  # fmt: skip


def binned(attempt: Attempt, names: Sequence[str] = ("read.clat",), many: int = 5000) -> None:
    """Histograms as fio's bins give them: most I/Os near a quarter of a millisecond, some on a second hill, a tail."""
    rows = []
    for name, found in zip(names, _cells(len(names), many), strict=True):
        edges = sorted(found)
        lows, highs = [2 ** (at / 8) for at in edges], [2 ** ((at + 1) / 8) for at in edges]
        rows.append(
            Histogram(attempt=attempt, name=name, lows=lows, highs=highs, counts=[found[at] for at in edges])
        )  # fmt: skip
    Histogram.objects.bulk_create(rows)


@cache
def _cells(histograms: int, many: int) -> list[dict[int, int]]:
    """Number of I/Os by eighth of an octave, for each histogram: the same for all tests, and 25 ms to draw."""
    dice = random.Random(3)
    drawn = []
    for _ in range(histograms):
        found: dict[int, int] = {}
        for _ in range(many):
            slow = dice.random() < 0.05
            at = dice.lognormvariate(math.log(4e-3 if slow else 250e-6), 0.6 if slow else 0.25)
            cell = math.floor(8 * math.log2(at))
            found[cell] = found.get(cell, 0) + 1
        drawn.append(found)
    return drawn


def with_percentiles(
    attempt: Attempt, seconds: int = 60, directions: Sequence[str] = ("read",)
) -> None:
    """Series as fio's histogram log gives them: percentiles of each second, with a spell that is ten times slower."""
    dice = random.Random(4)
    times = [float(second) for second in range(1, seconds + 1)]
    Series.objects.bulk_create(
        Series(
            attempt=attempt, sampler="fio", device="", metric=f"{direction}.clat.{rank}", unit="s", times=times,
            values=[level * dice.uniform(0.9, 1.1) * (10 if 30 <= at < 36 else 1) for at in times],
        )
        for direction in directions
        for rank, level in (("p50", 240e-6), ("p99", 3e-3), ("p99.9", 11e-3))
    )  # fmt: skip
