"""What it costs to look at runs: all findings of one run together, over 1,000 different ones.

Each run has two minutes of samples of a host with a stripe of four disks (diskstats' seven metrics, CPU), its tool's
own series, windows and figures. Target: 1,000 runs in less than 5 s of CPU, as a reparse of a lab waits for them.
Measured on 2026-11-23 (2 cores of a busy machine): 0.3 to 0.5 ms a run for a finding that asks four disks for one
metric; it is the tracks' windows that take the time.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from benchlab.analysis import finding
from benchlab.analysis.evidence import Access, Device, Layer, Run, Track, Window

RUNS, SECONDS, TARGET_S = 1000, 120, 5.0
DISKS = ("sdb", "sdc", "sdd", "sde")
RATES = {"read.iops": 1.0, "write.iops": 0.2, "read.bandwidth": 4096.0, "write.bandwidth": 819.0}
OTHERS = {"await": 0.0003, "queue": 4.0, "util": 0.9}
WINDOWS = (
    Window("file layout", 0.0, 20.0, measured=False),
    Window("ramp", 20.0, 30.0, measured=False),
    Window("measured", 30.0, 118.0),
)


def main() -> int:
    dice, found = np.random.default_rng(1), 0
    spent = dict.fromkeys(finding.of_runs(), 0.0)
    for _ in range(RUNS):
        run = _run(dice)
        for kind, module in finding.of_runs().items():
            begun = time.process_time()
            found += len(module.applies(run))
            spent[kind] += time.process_time() - begun
    for kind, seconds in sorted(spent.items(), key=lambda item: -item[1])[:5]:
        print(f"{kind}: {1e6 * seconds / RUNS:.0f} µs a run")
    whole = sum(spent.values())
    print(
        f"{RUNS} runs, {len(spent)} kinds, {found} findings: {whole:.2f} s, target {TARGET_S:g} s"
    )
    return int(whole > TARGET_S)


def _run(dice: np.random.Generator) -> Run:
    iops = float(dice.uniform(5e3, 5e4))
    tracks = [track for disk in DISKS for track in _of(disk, iops / len(DISKS), dice)]
    tracks += [*_of("dm-0", iops, dice), *_of("sda", 0.0, dice), *_of_host(iops, dice)]
    figures = {
        "iops": iops,
        "read.iops": iops,
        "read.bandwidth": iops * 4096,
        "lat.mean": 16 / iops,
    }
    return Run(
        "fio",
        Access(True, False, True, 4096, True, False, False, 1 << 30, 10.0, 88.0, 16),
        figures=figures,
        windows=WINDOWS,
        tracks=tuple(tracks),
        layers=(Layer("lvm", {"type": "striped"}, {"data": DISKS}), Layer("filesystem", {"type": "xfs"})),
        devices={name: _disk(name) for name in DISKS},
        meta={"clock_step": 0.001, "started_mono": 5.0, "ended_mono": 125.0},
    )  # fmt: skip


def _disk(name: str) -> Device:
    return Device(
        name, 480 << 30, rotational=False, scheduler="none", logical_block=512, physical_block=4096
    )


def _of(device: str, iops: float, dice: np.random.Generator) -> list[Track]:
    levels = {name: iops * each for name, each in RATES.items()}
    levels |= {name: level if iops else float("nan") for name, level in OTHERS.items()}
    return [_track(device, name, level, dice) for name, level in levels.items()]


def _of_host(iops: float, dice: np.random.Generator) -> list[Track]:
    cpu = {"cpu.user": 0.1, "cpu.system": 0.2, "cpu.iowait": 0.3, "cpu.idle": 0.4, "cpu.steal": 0.0}
    tool = {"read.iops": iops, "read.bandwidth": iops * 4096, "read.lat.mean": 16 / iops}
    return [_track("", name, level, dice) for name, level in {**cpu, **tool}.items()]


def _track(device: str, metric: str, level: float, dice: np.random.Generator) -> Track:
    values = (level * dice.normal(1, 0.05, SECONDS)).tolist()
    times = tuple(float(second) for second in range(1, SECONDS + 1))
    return Track(device, metric, "op/s", times, tuple(values))


if __name__ == "__main__":
    sys.exit(main())
