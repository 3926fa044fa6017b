# SPDX-License-Identifier: Apache-2.0
"""The figures of a test: names, values, units and notes. Runs on the host.

Both the result on the host and the later reading of the artifact use this.
"""

import math
from typing import Dict, List, NamedTuple, Optional, Tuple

from agents.dynamo import figures, specs
from agents.dynamo.account import Measured
from agents.dynamo.calibrate import TickRate
from agents.dynamo.figures import DirectionFigures, Figures
from agents.dynamo.wire import DATA_BYTES, DynamoError

RATE, BANDWIDTH, SECONDS, BYTES, COUNT = "op/s", "B/s", "s", "B", "1"
RANKS = (("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9))
# tolerance between dynamo's time and ours: share, and seconds
OFF_WALL, SLACK = 0.05, 0.1
# share of the time in updates, no more than the usual difference between two runs
DISTURBS = 0.02
# s; no disk answers in so short a mean time
TOO_FAST = 10e-6
MAX_CPUS = 64


class Row(NamedTuple):
    name: str
    value: Optional[float]
    unit: str
    labels: Dict[str, str] = {}
    note: str = ""


class Part(NamedTuple):
    """Figures of one worker on one target; both are numbered from 1."""

    worker: int
    target: int
    name: str
    outstanding: int
    figures: Figures


def target_parts(test: Measured) -> List[Part]:
    """The figures of each worker and target.

    Raises DynamoError if dynamo's time and ours disagree even after calibration.
    """
    target_rows: List[Part] = []
    for worker, result in zip(test.workers, test.results):
        seconds = (result.last - result.first) / test.rate.used
        slowest = max(target.max_latency for target in result.targets) / test.rate.used
        _check_time(test, worker.number, seconds, slowest)
        for number, (target, raw) in enumerate(zip(worker.targets, result.targets), start=1):
            measured = figures.target_figures(raw, seconds, test.rate.used)
            target_rows.append(
                Part(worker.number, number, target.name, target.queue_depth, measured)
            )
    if not target_rows:
        raise DynamoError("result", "no worker took part")
    return target_rows


def _check_time(test: Measured, worker: int, seconds: float, slowest: float) -> None:
    """Compare dynamo's time with ours.

    dynamo counts from the end of the last I/O of the ramp, which may be late on a slow disk.
    """
    wall = test.ended - test.began
    if not wall * (1 - OFF_WALL) - slowest - SLACK <= seconds <= wall * (1 + OFF_WALL) + SLACK or (
        seconds <= 0
    ):
        raise DynamoError(
            "result",
            f"worker {worker}: dynamo measured {seconds:.3f} s while {wall:.3f} s passed; its clock "
            "(the CPU's counter) cannot be trusted on this machine",
        )


def summary_rows(test: Measured) -> List[Row]:
    """All figures: first of the whole test, then of each worker and target if there are several."""
    every = target_parts(test)
    whole = figures.sum_figures([part.figures for part in every])
    scale = test.rate.reported / test.rate.used
    rows = _figure_rows(whole, {}, scale, "; ".join(result_warnings(test, whole)), bins=True)
    rows += _machine_rows(test)
    workers = sorted({part.worker for part in every})
    for number in workers:
        own = [part for part in every if part.worker == number]
        if len(workers) > 1:
            summed = figures.sum_figures([part.figures for part in own])
            rows += _figure_rows(summed, {"worker": str(number)}, scale)
        if len(own) > 1:
            for part in own:
                labels = {"worker": str(number), "target": str(part.target)}
                rows += _figure_rows(part.figures, labels, scale, part.name)
    return rows


def _figure_rows(
    measured: Figures, labels: Dict[str, str], scale: float, note: str = "", bins: bool = False
) -> List[Row]:
    rows: List[Row] = []
    for prefix, way in (
        ("", measured.combined),
        ("read.", measured.reads),
        ("write.", measured.writes),
    ):
        rows += _direction_rows(prefix, way, labels, "" if prefix else note)
    rows.append(Row("runtime", measured.seconds, SECONDS, labels))
    for name, rank in RANKS:
        bounds = figures.percentile_bounds(measured, rank, scale)
        if bounds is not None:
            rows.append(Row(f"lat.{name}.low", bounds[0], SECONDS, labels))
            rows.append(Row(f"lat.{name}.high", bounds[1], SECONDS, labels))
    for number, hits in enumerate(measured.bins):
        if bins or hits:
            low, high = figures.bin_edges(number, scale)
            own = dict(labels, **{"from": f"{low:.6g}", "to": f"{high:.6g}"})
            rows.append(Row("lat.bin", float(hits), COUNT, own))
    return rows


def _direction_rows(
    prefix: str, way: DirectionFigures, labels: Dict[str, str], note: str
) -> List[Row]:
    nothing = "" if way.ios else "no I/O"
    return [
        Row(prefix + "iops", way.iops, RATE, labels, note),
        Row(prefix + "bandwidth", way.bandwidth, BANDWIDTH, labels),
        Row(prefix + "lat.mean", way.mean, SECONDS, labels, nothing),
        Row(prefix + "lat.max", way.slowest if way.ios else None, SECONDS, labels, nothing),
        Row(prefix + "ios", float(way.ios), COUNT, labels),
        Row(prefix + "bytes", float(way.bytes), BYTES, labels),
        Row(prefix + "errors", float(way.errors), COUNT, labels),
    ]


def _machine_rows(test: Measured) -> List[Row]:
    cpus = [] if has_too_many_cpus(test) else list(test.manager.cpus)
    note = "" if cpus else f"dynamo cannot count more than {MAX_CPUS} CPUs"
    rows: List[Row] = []
    for name, column in (("cpu.busy", 0), ("cpu.user", 1), ("cpu.system", 2)):
        shares = [cpu[column] / 100.0 for cpu in cpus]
        mean = sum(shares) / len(shares) if shares else None
        rows.append(Row(name, None if mean is None else max(0.0, mean), COUNT, {}, note))
    interrupts = sum(cpu.interrupts for cpu in cpus) if cpus else None
    rows.append(Row("cpu.interrupts", interrupts, RATE, {}, note))
    cost = polling_cost(test)
    rows.append(Row("poll.count", float(len(test.updates)), COUNT))
    rows.append(Row("poll.bytes", float(cost.bytes), BYTES))
    rows.append(Row("poll.share", cost.share, COUNT, {}, "of the measured time, at most"))
    rate = test.rate
    rows.append(
        Row("tick_rate.reported", rate.reported, RATE, {}, "" if rate.is_corrected else "used")
    )
    rows.append(Row("tick_rate.measured", rate.measured, RATE, {}, _clock_verdict(rate)))
    if rate.measured is not None and math.isfinite(rate.doubt):
        note = "of the measured rate, at most"
        rows.append(Row("tick_rate.uncertainty", rate.doubt, COUNT, {}, note))
    for way in ("read", "write"):
        counted = kernel_counts(test, way)
        if counted is not None:
            rows.append(Row(f"kernel.{way}.ios", counted[0], COUNT))
            rows.append(Row(f"kernel.{way}.bytes", counted[1], BYTES))
    between = kernel_seconds(test)
    if between is not None:
        rows.append(Row("kernel.seconds", between, SECONDS, {}, "between the kernel's two counts"))
    return rows


def _clock_verdict(rate: TickRate) -> str:
    """Judge dynamo's own clock rate by the measured one. It counts as right only if the measurement is good enough."""
    if rate.measured is None:
        return "the run was too short to measure it"
    if rate.is_corrected:
        return f"used; {_uncertainty_text(rate)}"
    if not rate.is_certain:
        return f"dynamo's own rate is used; {_uncertainty_text(rate)}"
    return "used only as a check: dynamo's own rate is right"


def _uncertainty_text(rate: TickRate) -> str:
    if not math.isfinite(rate.doubt):
        return "not known: an answer took as long as the test"
    return f"known to within {rate.doubt:.1%}{'' if rate.is_certain else ' only'}"


class Polling(NamedTuple):
    """Cost of a test's updates to the machine that was measured."""

    # that it sent
    bytes: int
    # of the time, from each question to the end of its answer
    share: float


def polling_cost(test: Measured) -> Polling:
    messages = sum(1 + len(update.workers) for update in test.updates)
    took = sum(max(update.received) - update.sent_at for update in test.updates)
    wall = test.ended - test.began
    return Polling(messages * DATA_BYTES, took / wall if wall > 0 else 0.0)


def has_too_many_cpus(test: Measured) -> bool:
    """True if the CPU figures do not cover the whole machine."""
    cpus = test.notes.get("cpus")
    many = max(cpus if isinstance(cpus, int) else 0, test.info.processors)
    return many > MAX_CPUS or not test.manager.cpus


def kernel_counts(test: Measured, way: str) -> Optional[Tuple[float, float]]:
    """I/Os and bytes that the kernel counted meanwhile on all devices below, if the console read them."""
    before, after = test.notes.get("diskstats_before"), test.notes.get("diskstats_after")
    if not isinstance(before, dict) or not isinstance(after, dict) or set(before) != set(after):
        return None
    # [reads, bytes read, writes, bytes written] of each device
    at = 0 if way == "read" else 2
    ios = sum(after[device][at] - before[device][at] for device in after)
    moved = sum(after[device][at + 1] - before[device][at + 1] for device in after)
    return (float(ios), float(moved)) if ios >= 0 and moved >= 0 and after else None


def kernel_seconds(test: Measured) -> Optional[float]:
    """Seconds between the kernel's two counts, which enclose dynamo's measurement."""
    before, after = test.notes.get("counted_before"), test.notes.get("counted_after")
    if not isinstance(before, (int, float)) or not isinstance(after, (int, float)):
        return None
    return after - before if after > before else None


def result_warnings(test: Measured, whole: Figures) -> List[str]:
    """Sentences that belong to the result."""
    messages: List[str] = []
    if not test.has_bins:
        messages.append(
            "this dynamo is 1.1.0-rc1: it works through the page cache, so these are not figures of "
            "the disk; use the 1.1.0 final build"
        )
    names = dict.fromkeys(t.name for worker in test.workers for t in worker.targets if not t.is_raw)
    messages += filter(None, map(specs.file_size_doubt, names))
    mean = whole.combined.mean
    if mean is not None and mean < TOO_FAST:
        message = f"a mean latency of {mean * 1e6:.2g} us is too low for a disk"
        messages.append(f"{message}: I/Os failed, or a cache served them")
    share = polling_cost(test).share
    if share > DISTURBS:
        messages.append(
            f"polling dynamo took up to {share:.1%} of the time: IOPS may be too low by that share"
        )
    if test.rate.is_corrected and test.rate.measured is not None:
        off = test.rate.measured / test.rate.reported - 1
        messages.append(f"dynamo's clock rate was {off:+.1%} off, the measured rate is used")
    if test.rate.measured is not None and not test.rate.is_certain:
        messages.append(
            f"dynamo's clock rate is {_uncertainty_text(test.rate)}, because its answers took long: "
            "IOPS and latencies may be off by as much"
        )
    counted = sum(whole.bins)
    if whole.bins and counted != whole.combined.ios and whole.combined.slowest < 9.5:
        messages.append(f"the latency bins hold {counted} of {whole.combined.ios} I/Os")
    return messages


def summary_json(test: Measured) -> Dict[str, object]:
    """Content of result.json: rows as lists, and the clock rates used."""
    return {
        "version": test.info.version,
        "wall_s": test.ended - test.began,
        "ticks": {
            "reported": test.rate.reported,
            "measured": test.rate.measured,
            "used": test.rate.used,
            "uncertainty": test.rate.doubt if math.isfinite(test.rate.doubt) else None,
        },
        "metrics": [
            [row.name, row.value, row.unit, row.labels, row.note] for row in summary_rows(test)
        ],
    }
