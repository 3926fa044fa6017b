"""Runs of which the truth is known, as evidence: clean ones, and what is done to them so that a finding is due.

Clean: 10 to 600 s at 1 s, ten stacks, five tools. The rate has noise of 2, 5, 10 or 20 % (a quarter of its variance
carried over, rho up to 0.8), a drift of up to +-10 % and a wave of up to 5 %, 2 % of intervals at half. Members differ
by 10 % each second, file systems add up to 8 % of strays the other way, a pool writes in bursts of 5 s, 1 % of frames
tell nothing, and some tools lay out a file before at up to ten times the rate. Nothing comes near what the disks can.
Data are random, zeros or of unknown kind; pools compress what is not zeros. What hosts tell is in simulated_hosts, what
the kernel counted beside dynamo and what was written before in simulated_counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from benchlab.analysis.evidence import Access, Layer, Run, Track, Window
from tests.analysis import simulated_counts, simulated_hosts
from tests.analysis.simulated_hosts import SCHEDULERS, Host

NOISES = (0.02, 0.05, 0.10, 0.20)
STRAYS, FRAMES_LOST, HALVED = 0.08, 0.01, 0.02
SIZE = 64 << 30  # B that a tool goes over


@dataclass(frozen=True)
class Stack:
    """`adds`: bytes on its data disks for each that is written. `bursts`: it writes when it likes."""

    layers: tuple[Layer, ...]
    adds: float = 1.0
    strays: float = 0.0
    bursts: bool = False
    cache: tuple[str, ...] = ()  # disks of a cache: what is read comes from there in part
    writes: bool = True  # small random writes cost no more than `adds`

    def data(self):
        found = [n for one in self.layers for use, names in one.uses.items() for n in names]
        return [name for name in found if name not in self.cache]


def _disks(count):
    return tuple(f"sd{letter}" for letter in "bcdefghijklm"[:count])


def _layer(kind, count=0, **options):
    return Layer(kind, options, {"data": _disks(count)} if count else {})


XFS, EXT4 = _layer("filesystem", type="xfs"), _layer("filesystem", type="ext4")
STACKS = {
    "raw": Stack((_layer("raw", 1),)),
    "crypt": Stack((_layer("dm_crypt", 1), XFS), strays=STRAYS),
    "striped": Stack((_layer("lvm", 4, type="striped"), XFS), strays=STRAYS),
    "linear": Stack((_layer("lvm", 2, type="linear"),)),
    "mirror": Stack((_layer("md", 2, level=1, bitmap="internal"), EXT4), 2, strays=STRAYS),
    "raid0": Stack((_layer("md", 3, level=0),)),
    "raid5": Stack((_layer("md", 3, level=5), EXT4), 1.5, strays=STRAYS, writes=False),
    "raidz": Stack(
        (_layer("zpool", 4, layout="raidz"), _layer("zfs", compression="off")), 4 / 3, STRAYS, True
    ),
    "bcache": Stack(
        (
            Layer(
                "bcache",
                {"cache_mode": "writethrough"},
                {"backing": _disks(1), "cache": ("nvme0n1",)},
            ),
            XFS,
        ),
        strays=STRAYS,
        cache=("nvme0n1",),
    ),
    "directory": Stack((_layer("directory"),)),
}
TOOLS = ("fio", "dd", "sysbench", "dynamo", "pg_test_fsync")


@dataclass
class Truth:
    """A run while it is made; `rate`: B/s that the tool moves, in each second that it measures."""

    tool: str
    stack: Stack
    dice: np.random.Generator
    reads: bool
    rate: np.ndarray
    before: int  # s
    block: int
    outstanding: int
    host: Host
    fill: bool | None = False  # whether its data are zeros; None: nobody knows
    counted: bool = True  # by the kernel, beside dynamo
    scheduler: str = ""  # set for it on purpose
    disks_told: bool = True
    tool_told: bool = True
    more: dict = field(default_factory=dict)  # of Run
    other: float = 0.0  # bytes the other way, of those asked
    extra: float = 1.0  # times the bytes that are due
    discards: float = 0.0  # B/s
    lag: float = 1.0  # what reaches the disks in time
    steal: float = 0.003
    heat: float = 0.0  # of the seconds
    quota: float = 0.01  # of its periods
    resync: float = 0.0
    step: float = 0.0
    flight: float = 1.0  # of what was asked
    failed: float = 0.0  # of the I/Os, which dynamo takes for done
    beside: float = 0.0  # of what was asked, by somebody else
    wander: float = 0.0  # largest over smallest of the rate without its noise, ln
    filled: float = 1.0  # of the volume, before
    submits: float = 0.1  # of its time, in submissions
    rated: float = 2.0  # times the IOPS of a disk
    link: float = 3.0
    access: dict = field(default_factory=dict)

    @property
    def seconds(self):
        return len(self.rate)


def clean(dice, tool="", stack="", seconds=0, noise=0.0, carries=None, host=None):
    """Of a drawn tool, stack and host unless told. `carries`: (rho, its share of the noise's variance)."""
    tool = tool or str(dice.choice(TOOLS))
    made = STACKS[stack or str(dice.choice(list(STACKS)))]
    seconds = seconds or int(np.exp(dice.uniform(np.log(10), np.log(600))))
    noise = noise or float(dice.choice(NOISES))
    block = int(dice.choice([4096, 16384, 131072]))
    level = np.exp(dice.uniform(np.log(5e6), np.log(5e8)))
    shape, wander = _shape(dice, seconds, noise, carries)
    truth = Truth(
        tool=tool,
        stack=made,
        dice=dice,
        reads=tool != "pg_test_fsync" and bool(dice.random() < 0.5),
        rate=level * shape,
        wander=wander,
        before=int(dice.integers(0, 20)) if tool in ("dd", "sysbench") else 0,
        block=block,
        outstanding=int(2 ** dice.integers(0, 9)) if tool in ("fio", "dynamo", "sysbench") else 1,
        tool_told=tool in ("fio", "dynamo", "sysbench") and bool(dice.random() < 0.7),
        disks_told=bool(dice.random() < 0.9),
        other=float(dice.uniform(0, made.strays)),
        steal=float(dice.uniform(0, 0.005)),
        step=float(dice.normal(0, 0.01) + 2e-4 * seconds * dice.uniform(-1, 1)),
        flight=float(dice.uniform(0.97, 1.0)),
        host=host or simulated_hosts.host(dice),
        fill=_fill(dice),
        counted=bool(dice.random() < 0.8),
        scheduler=str(dice.choice(SCHEDULERS)) if dice.random() < 0.1 else "",
    )
    if truth.fill is not True and dice.random() < 0.5:
        compress(truth)
    return truth


def _fill(dice):
    return (False, False, True, None)[int(dice.integers(4))]


def compress(truth):
    """A pool does, whatever is written on it."""
    layers = [
        replace(one, options={**one.options, "compression": "lz4"}) if one.kind == "zfs" else one
        for one in truth.stack.layers
    ]
    truth.stack = replace(truth.stack, layers=tuple(layers))


def _shape(dice, n, noise, carries=None):
    time = np.arange(n) / max(n - 1, 1)
    rho, share = carries or (dice.uniform(0, 0.8), 0.25)
    shocks = dice.normal(size=n)
    carried = np.empty(n)
    now = dice.normal()
    for at, shock in enumerate(np.sqrt(1 - rho**2) * shocks):
        now = rho * now + shock
        carried[at] = now
    logs = noise * (np.sqrt(1 - share) * dice.normal(size=n) + np.sqrt(share) * carried)
    slow = _wander(dice, time)
    logs += slow + np.where(dice.random(n) < HALVED, np.log(0.5), 0)
    return np.exp(logs), float(np.ptp(slow))


def _wander(dice, time):
    """ln of a slow drift and a wave."""
    drift = dice.uniform(-0.1, 0.1) * (time - 0.5)
    wave = dice.uniform(0, 0.05) * np.sin(2 * np.pi * (dice.uniform(0.5, 3) * time + dice.random()))
    return drift + wave


def run(truth):
    """The evidence that it leaves."""
    begin, end = float(truth.before), float(truth.before + truth.seconds)
    direct = truth.tool in ("fio", "dynamo")
    access = Access(
        **{
            "reads": truth.reads,
            "writes": not truth.reads,
            "random": True,
            "block": truth.block,
            "direct": True if direct else None if truth.tool == "pg_test_fsync" else False,
            "synced": truth.tool in ("sysbench", "pg_test_fsync") and not truth.reads,
            "compressible": truth.fill,
            "size": SIZE,
            "runtime_s": float(truth.seconds),
            "outstanding": truth.outstanding,
            **truth.access,
        }
    )
    windows = [Window("measured", begin, end)]
    if truth.before:
        windows.insert(0, Window("file layout", 0.0, begin, measured=False))
    tracks = [*_tool_tracks(truth), *_host_tracks(truth), *_disk_tracks(truth)]
    counted, notes = simulated_counts.of_dynamo(truth) if truth.tool == "dynamo" else ({}, {})
    made = Run(
        tool=truth.tool,
        access=access,
        figures=_figures(truth) | counted,
        notes=notes,
        windows=tuple(windows),
        tracks=tuple(tracks),
        layers=truth.stack.layers,
        devices=_devices(truth),
        memory=16 << 30,
        conditions=simulated_hosts.conditions(truth.dice, truth.host),
        requested=("scheduler",) if truth.scheduler else (),
        unwritten=simulated_counts.unwritten(truth, SIZE),
        meta={"clock_step": truth.step, "started_mono": 100.0, "ended_mono": 100.0 + end},
        options={"conv": ("fdatasync",)} if truth.tool == "dd" else {},
    )
    return replace(made, **truth.more)


def carried(made):
    """Names of all evidence of a run that is known, without its values."""
    return {
        *(f"figure {name}" for name in made.figures),
        *(f"track {one.metric}" for one in made.tracks),
        *(f"window {one.measured}" for one in made.windows),
        *(f"layer {one.kind}.{name}" for one in made.layers for name in (*one.options, *one.uses)),
        *(f"access {name}" for name, value in _told(made.access)),
        *(f"disk {name}" for disk in made.devices.values() for name, value in _told(disk)),
        *(f"meta {name}" for name in made.meta),
        *(f"condition {name}" for name in made.conditions),
    }


def _told(of):
    each = ((name, getattr(of, name)) for name in of.__dataclass_fields__)
    return [(name, value) for name, value in each if value not in (None, "")]


def _figures(truth):
    mean = float(truth.rate.mean())
    if truth.tool == "pg_test_fsync":
        return {}
    iops = mean / truth.block
    found = {"bandwidth": mean, "iops": iops, "runtime": float(truth.seconds)}
    if truth.tool != "dd":
        way = "read" if truth.reads else "write"
        found |= {f"{way}.bandwidth": mean, f"{way}.iops": iops}
        found["lat.mean"] = truth.flight * truth.outstanding / iops
    if truth.tool == "fio":
        found |= {"slat.mean": truth.submits / iops, "cpu.user": 0.1, "cpu.system": 0.2}
    return found


def _devices(truth):
    mean = float(truth.rate.mean()) * max(truth.stack.adds, 1)
    each = mean / max(len(truth.stack.data()), 1)
    names = [*truth.stack.data(), *truth.stack.cache]
    return simulated_hosts.devices(
        truth.dice,
        truth.host,
        names,
        truth.scheduler,
        link=truth.link * max(mean, each),
        rated_iops=truth.rated * max(mean, each) / truth.block,
        rated_bandwidth=truth.rated * max(mean, each),
    )


def _track(device, metric, unit, values, dice=None, shift=0):
    values = np.asarray(values, dtype=float)
    if dice is not None:
        values = np.where(dice.random(values.size) < FRAMES_LOST, np.nan, values)
    times = np.arange(1, values.size + 1) + shift
    return Track(device, metric, unit, tuple(times.astype(float).tolist()), tuple(values.tolist()))


def _tool_tracks(truth):
    if not truth.tool_told:
        return []
    way = "" if truth.tool == "dynamo" else "read." if truth.reads else "write."
    iops = truth.rate / truth.block
    return [
        _track("", f"{way}iops", "op/s", iops, shift=truth.before),
        _track(
            "", f"{way}lat.mean", "s", truth.flight * truth.outstanding / iops, shift=truth.before
        ),
    ]


def _host_tracks(truth):
    dice, n = truth.dice, truth.before + truth.seconds
    spikes = np.where(dice.random(n) < 0.01, 0.1, 0.0)
    steal = np.minimum(1, dice.exponential(truth.steal, n) + spikes)
    found = [_track(name, "cpu.steal", "1", steal, dice) for name in ("", "cpu0")]
    hot = np.arange(n) * truth.heat % 1 < truth.heat
    found.append(_track("", "cpu.heat", "1", hot.astype(float)))
    used = np.where(np.arange(n) % 5, 0.0, 5 * truth.quota)
    found.append(_track("", "cpu.quota", "1", used))
    if any(one.kind == "md" for one in truth.stack.layers):
        speed = np.full(n, truth.resync or np.nan)
        found.append(_track("md127", "sync.bandwidth", "B/s", speed))
    return found


def _disk_tracks(truth):
    if not truth.disks_told:
        return []
    return [track for name in truth.stack.data() for track in _of_disk(truth, name)] + [
        track for name in truth.stack.cache for track in _of_disk(truth, name, share=0.2)
    ]


def _of_disk(truth, name, share=1.0):
    dice, stack = truth.dice, truth.stack
    before = truth.rate.mean() * dice.uniform(1, 10, truth.before)
    before = np.concatenate([before * (not truth.reads), truth.rate]) / len(stack.data())
    noise = np.exp(0.1 * dice.normal(size=before.size))
    asked = before * noise * truth.extra * share
    if not truth.reads:
        asked = asked * stack.adds * truth.lag * (_bursts(before.size) if stack.bursts else 1)
    other = before * truth.other * np.exp(0.5 * dice.normal(size=before.size)) * share
    reads, writes = (asked, other) if truth.reads else (other, asked)
    columns = {
        "read.bandwidth": ("B/s", reads),
        "write.bandwidth": ("B/s", writes),
        "read.iops": ("op/s", reads / truth.block),
        "write.iops": ("op/s", writes / truth.block),
        "util": ("1", np.full(before.size, 0.8)),
        "discard.bandwidth": ("B/s", np.full(before.size, truth.discards)),
    }
    return [_track(name, metric, unit, values, dice) for metric, (unit, values) in columns.items()]


def _bursts(n):
    """A group each five seconds, written within two of them."""
    return np.where(np.arange(n) % 5 < 2, 2.5, 0.0)
