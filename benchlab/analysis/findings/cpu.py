# SPDX-License-Identifier: Apache-2.0
"""CPU: full, throttled, stolen, or idle like everything else."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

import numpy as np

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity, run_finding
from benchlab.analysis.formats import share

# Busy share of the time, without waiting for I/O.
BUSY = 0.90
# share of the samples, or of the quota's periods
OFTEN = 0.05
# share of the host's CPU time
MIN_HOST_STEAL = 0.03
# Share of the time of a single CPU: a tool with one thread may run on it.
MIN_CPU_STEAL = 0.10
# busy share of each disk
IDLE_DISK = 0.10
# B/s on the disks: less means that nothing reached them
LEAST = 1 << 16


# whole samples: fewer show a moment and not the run
ENOUGH = 5
# (metric, words): what a core did
CORE_TIMES = (
    ("cpu.user", "user"),
    ("cpu.system", "kernel"),
    ("cpu.irq", "interrupts"),
    ("cpu.steal", "stolen"),
)
# share of a core's time that is worth a word
NAMED = 0.01


def busiest(run: Run) -> tuple[str, float]:
    """The busiest core, and the share of its time neither idle nor waiting.

    ("", NaN) if no core has ENOUGH samples.
    """
    waits = {name: wait for name, wait in run.means("cpu.iowait").items() if not isnan(wait)}
    busy = {
        track.device: 1 - track.mean() - waits.get(track.device, 0.0)
        for track in run.measured_tracks("cpu.idle")
        if track.device and track.known_samples >= ENOUGH
    }
    return max(busy.items(), key=lambda pair: pair[1], default=("", float("nan")))


@run_finding("The CPU is full")
def cpu_bound(run: Run) -> Iterator[Finding]:
    """A core, or the tool's own thread, has no time left: the CPU is what was measured (docs/analysis.md, section 6).

    The tool's thread is checked if it is known, else the busiest core. A thread that polls is busy without a limit.
    """
    if run.polled:
        return
    own, (name, busy) = run.own_thread, busiest(run)
    if own >= BUSY:
        yield Finding(
            f"The tool's own threads were busy {share(own)} of the time: they may be the limit, so try more jobs",
            Severity.LIMIT,
            {"tool": Number(own, "1", "CPU time of the tool's jobs", figure="cpu.user")},
            about="tool",
        )
    elif busy >= BUSY:
        yield Finding(
            f"{name} was {share(busy)} busy{_core_times(run, name)}: if this run needs {name}, it is the limit",
            Severity.LIMIT,
            {"core": Number(busy, "1", f"busy time of {name}", device=name, metric="cpu.idle")},
            about=name,
        )


def _core_times(run: Run, name: str) -> str:
    """ " (user 61 %, interrupts 22 %)": what the core was busy with; "" if nobody counted it."""
    means = {metric: run.means(metric, [name]).get(name, 0.0) for metric, _ in CORE_TIMES}
    parts = [
        f"{words} {share(means[metric])}" for metric, words in CORE_TIMES if means[metric] >= NAMED
    ]
    return f" ({', '.join(parts)})" if parts else ""


@run_finding("CPU throttled")
def cpu_slowed(run: Run) -> Iterator[Finding]:
    """The CPU was held back while it measured: by heat, or by the quota of the container that the tool runs in."""
    yield from _throttled_by_heat(run)
    used = _first_mean(run, "cpu.quota")
    if used >= OFTEN:
        periods = "periods in which the quota was used up"
        yield Finding(
            f"the host's CPU quota (cgroup) was used up in {share(used)} of its periods: its programs then had to wait",
            Severity.DOUBT,
            {"quota": Number(used, "1", periods, metric="cpu.quota")},
            about="quota",
        )


def _first_mean(run: Run, metric: str) -> float:
    return next(iter(run.means(metric).values()), float("nan"))


def _throttled_by_heat(run: Run) -> Iterator[Finding]:
    """Report throttling by heat.

    The CPU counts how often it begins to throttle and not how long that lasts: a single time may be long.
    """
    samples = [v for track in run.measured_tracks("cpu.heat") for v in track.values if not isnan(v)]
    times = int(np.count_nonzero(samples))
    if not times:
        return
    throttled = times / len(samples)
    numbers = {"heat": Number(throttled, "1", "samples in which it was counted", metric="cpu.heat")}
    clock = _first_mean(run, "cpu.speed")
    at = ""
    if not isnan(clock):
        numbers["clock"] = Number(clock, "1", "clock, of its highest", metric="cpu.speed")
        at = f"; its mean clock was {share(clock)} of its highest"
    yield Finding(
        f"the CPU throttled itself for heat in {times} of {len(samples)} samples{at}",
        Severity.DOUBT if throttled >= OFTEN else Severity.NOTE,
        numbers,
        about="heat",
    )


@run_finding("CPU time stolen")
def cpu_throttled(run: Run) -> Iterator[Finding]:
    """The host's CPUs were given to other virtual machines while it measured (cpu.steal of /proc/stat).

    The host is checked as a whole, else its worst CPU.
    """
    means = {name: mean for name, mean in run.means("cpu.steal").items() if not isnan(mean)}
    whole = means.pop("", 0.0)
    worst, most = max(means.items(), key=lambda pair: pair[1], default=("", 0.0))
    if whole >= MIN_HOST_STEAL:
        device, mean, whose = "", whole, "the host's CPU time"
    elif most >= MIN_CPU_STEAL:
        device, mean, whose = worst, most, f"the time of {worst}"
    else:
        return
    yield Finding(
        f"{share(mean)} of {whose} went to other virtual machines while it measured",
        Severity.DOUBT,
        {"steal": Number(mean, "1", f"steal of {whose}", device=device, metric="cpu.steal")},
    )


@run_finding("Nothing that is seen is full")
def nothing_is_full(run: Run) -> Iterator[Finding]:
    """The disks are idle most of the time, and no core is full: the limit is elsewhere (article 001, 2 to 4 % busy).

    Runs that were slowed down on purpose are left out. A busy disk need not be full, but an idle one is not.
    """
    means = run.means("util", run.active_disks)
    busy = [means.get(name, float("nan")) for name in run.active_disks]
    if not busy or any(map(isnan, busy)) or max(busy) >= IDLE_DISK or run.held_back:
        return
    moved = [run.disk_rate(way) for way in ("read", "write")]
    core = busiest(run)[1]
    if None in moved or sum(amount or 0.0 for amount in moved) < LEAST:
        return
    if core >= BUSY or run.own_thread >= BUSY or run.polled:
        return
    low, high = share(min(busy)), share(max(busy))
    between = high if low == high else f"{low} to {high}"
    numbers = {"disks": Number(max(busy), "1", "busy time of the busiest disk", metric="util")}
    cpu, limit = "the CPU was not watched", "not the disks, but perhaps the CPU,"
    if any(track.device for track in run.measured_tracks("cpu.idle")):
        cpu = "the CPU was hardly sampled"
    if not isnan(core):
        cpu, limit = f"the busiest core {share(core)}", "elsewhere: perhaps"
        numbers["core"] = Number(core, "1", "busy time of the busiest core", metric="cpu.idle")
    yield Finding(
        f"The disks were {between} busy, {cpu}. The limit is {limit} one request at a time, a lock, a log, memory"
        " or a link",
        Severity.LIMIT,
        numbers,
    )
