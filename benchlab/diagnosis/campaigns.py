# SPDX-License-Identifier: Apache-2.0
"""Diagnosis of stored runs: the evidence that a paste gives, from figures, options, layers, disks and samples.

Each run is diagnosed alone, since the runs of a sweep differ on purpose; verdicts say how set-ups differ.
A cause that a finding names as well (`SAME_CAUSE`) is left out, so that a page does not say it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import Any

from agents.context.model import Fact, Facts, Value
from agents.contracts import Metric, Series, Unit
from benchlab.analysis.evidence import Device, Layer, Run, Track, tool_options
from benchlab.campaigns.models import Campaign
from benchlab.diagnosis.answers import MAX_SHOWN, Answer, rank
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.model import Diagnosis, Proof
from benchlab.findings import stored_runs
from benchlab.findings.storing import succeeded_attempts

# rule -> kind of the finding (benchlab.analysis.findings) that says the same of an own run
SAME_CAUSE: Mapping[str, str] = {
    "R01": "cached_read",
    "R02": "buffered",
    "R04": "submit_bound",
    "R06": "above_ceiling",
    "R08": "unwritten_blocks",
    "R09": "compressible_data",
    "R11": "not_steady",
    "R17": "depth_not_reached",
    "R19": "clock_jumped",
    "R21": "flush_bound",
    "R26": "slog_costs",
    "R29": "sync_disabled",
    "R33": "raid5_read_modify_write",
    "R40": "slow_member",
    "R41": "extended_not_restriped",
    "R42": "cache_does_not_help",
    "R43": "cache_read_under_writes",
    "R44": "resync_meanwhile",
    "R46": "in_turn",
    "R53": "cpu_bound",
    "R57": "rating_reached",
    "R58": "not_steady",
    "R61": "cpu_slowed",
}
# Runs of a campaign that are looked at, evenly spread: each costs some milliseconds, and causes repeat.
MAX_RUNS = 60
# a run's zpool samples have this prefix, as in the readers of pasted text
POOL_PREFIX = "zpool."
# subject of facts about the layer, as a kernel or tool would name it
ARRAY, POOL, DATASET, VOLUME = "md0", "pool", "pool/data", "vg/lv"


def read_spread_evidence(campaign: Campaign) -> Iterator[Evidence]:
    """Evidence of at most MAX_RUNS runs of the campaign, evenly spread."""
    pks = list(succeeded_attempts(campaign).order_by("pk").values_list("pk", flat=True))
    step = max(-(-len(pks) // MAX_RUNS), 1)
    return read_evidence(pks[::step])


def read_evidence(attempts: Sequence[int]) -> Iterator[Evidence]:
    """Evidence of each of these attempts."""
    return (run_evidence(run) for run in stored_runs.read_runs(attempts))


def merge_answers(answers: Sequence[Answer]) -> Answer:
    """One answer for several runs. Of each cause the surest diagnosis remains, with the number of runs that show it."""
    by_rule: dict[str, list[Diagnosis]] = {}
    for answer in answers:
        for diagnosis in (*answer.shown, *answer.folded):
            if diagnosis.rule not in SAME_CAUSE:
                by_rule.setdefault(diagnosis.rule, []).append(diagnosis)
    ranked = rank([_merge(same, len(answers)) for same in by_rule.values()])
    checked = answers[0].checked if answers else ()
    readable = sum(answer.readable for answer in answers)
    return Answer(tuple(ranked[:MAX_SHOWN]), tuple(ranked[MAX_SHOWN:]), checked, readable)


def _merge(same: Sequence[Diagnosis], runs: int) -> Diagnosis:
    """The surest of the diagnoses of one cause; its share counts the runs that do not show it."""
    best = max(same, key=lambda diagnosis: diagnosis.share * diagnosis.confidence)
    if runs < 2:
        return replace(best, results=())
    seen = Proof(f"{len(same)} of the {runs} runs that were looked at show it")
    share = best.share * len(same) / runs
    # Other runs of the campaign may have another cause: nothing is silenced across runs.
    return replace(best, proofs=(*best.proofs, seen), share=share, results=(), silences=())


def run_evidence(run: Run) -> Evidence:
    """Evidence of one run: its tool's result, then what was watched beside it."""
    facts = Facts(tuple(_facts(run)))
    return Evidence((_test(run), *_watchers(run)), facts)


def _test(run: Run) -> Result:
    figures = [Metric(name, value, _unit(name)) for name, value in run.figures.items()]
    labelled = [
        Metric(figure.name, figure.value, Unit(figure.unit), figure.labels)
        for figure in run.labelled
    ]
    return Result(
        kind=run.tool,
        title=run.tool,
        metrics=(*figures, *labelled),
        options=_given_options(run),
        # own options are those of the whole command; of an import only what its text showed
        options_complete=run.ours,
        outstanding=run.access.outstanding,
        layout=run.stage,
        run=run.run,
    )


def _unit(figure: str) -> Unit:
    """Unit of a figure without labels, by its name."""
    last = figure.rpartition(".")[2]
    if last in ("bandwidth", "bytes"):
        return Unit.BYTES_PER_SECOND if last == "bandwidth" else Unit.BYTES
    if last in ("iops", "ops"):
        return Unit.OPS_PER_SECOND
    return Unit.SECONDS if "lat." in figure or last == "runtime" else Unit.RATIO


def _given_options(run: Run) -> dict[str, Any]:
    """Options with a value; what is off or empty has the tool's default."""
    options = tool_options(run.options)
    if run.access.size and "size" not in options:
        options["size"] = run.access.size
    return {name: value for name, value in options.items() if value not in (None, "", (), [])}


def _watchers(run: Run) -> Iterator[Result]:
    """Samples of the kernel as iostat's, and those of pools as zpool iostat's."""
    pools = [track for track in run.tracks if track.metric.startswith(POOL_PREFIX)]
    others = [track for track in run.tracks if _is_watched(track)]
    for kind, tracks in (("iostat", others), ("zpool_iostat", pools)):
        measured = list(_within(run, tracks))
        if measured:
            yield Result(
                kind=kind,
                title=kind.replace("_", " "),
                metrics=tuple(_mean(track) for track in measured),
                series=tuple(_series(track) for track in measured),
                run=run.run,
            )


def _is_watched(track: Track) -> bool:
    """True for a device's samples, and for the CPU time of the whole host."""
    if track.metric.startswith(POOL_PREFIX):
        return False
    return (
        track.metric.startswith("cpu.") if not track.device else not track.device.startswith("cpu")
    )


def _within(run: Run, tracks: Iterable[Track]) -> Iterator[Track]:
    """The tracks over what was measured, without those of which nothing is known."""
    windows = run.measured_windows
    for track in tracks:
        measured = track.intervals_within(windows) if windows else track
        if not isnan(measured.mean()):
            yield measured


def _mean(track: Track) -> Metric:
    return Metric(track.metric, track.mean(), Unit(track.unit), {"device": track.device})


def _series(track: Track) -> Series:
    return Series(track.device, track.metric, Unit(track.unit), track.times, track.values)


def _facts(run: Run) -> Iterator[Fact]:
    if run.memory:
        yield Fact("", "host.memory", float(run.memory), 0)
    if kernel := run.conditions.get("kernel"):
        yield Fact("", "host.kernel", kernel, 0)
    for device in run.devices.values():
        yield from _device_facts(device)
    for layer in run.layers:
        for subject, name, value in _layer_facts(run, layer):
            if value not in (None, "", 0):
                yield Fact(subject, name, value, 0, layer.kind)
    if run.resyncing:
        yield Fact(ARRAY, "md.sync_action", "resync", 0)


def _device_facts(device: Device) -> Iterator[Fact]:
    values: Mapping[str, Value | None] = {
        "disk.model": device.model,
        "disk.firmware": device.firmware,
        "disk.size": device.size,
        "disk.rotational": device.rotational,
        "disk.scheduler": device.scheduler,
        "disk.write_cache": device.write_cache,
        "disk.logical_block": device.logical_block,
        "disk.physical_block": device.physical_block,
        "disk.link_speed": device.link,
    }
    for name, value in values.items():
        if value is not None and value != "":
            number = (
                float(value) if isinstance(value, int) and not isinstance(value, bool) else value
            )
            yield Fact(device.name, name, number, 0)


def _layer_facts(run: Run, layer: Layer) -> Iterator[tuple[str, str, Value | None]]:
    """Subject, name and value of what is known of a layer; "", 0 and None stand for unknown."""
    options = layer.options
    data = layer.uses.get("data", ())
    match layer.kind:
        case "md":
            yield ARRAY, "md.level", f"raid{layer.level}"
            yield ARRAY, "md.members", " ".join(data)
            yield ARRAY, "md.chunk", _number(options.get("chunk"))
            yield ARRAY, "md.bitmap", str(options.get("bitmap") or "")
        case "zpool":
            yield POOL, "pool.vdevs", _vdevs(options, len(data))
            yield POOL, "pool.ashift", _number(options.get("ashift"))
            yield POOL, "pool.log", " ".join(layer.uses.get("log", ()))
            yield POOL, "pool.cache", " ".join(layer.uses.get("cache", ()))
        case "zfs" | "zvol":
            for name in ("recordsize", "volblocksize"):
                yield DATASET, f"zfs.{name}", _number(options.get(name))
            for name in ("compression", "sync", "logbias", "primarycache"):
                yield DATASET, f"zfs.{name}", str(options.get(name) or "")
        case "lvm":
            kind = str(options.get("type") or "striped")
            yield VOLUME, "lv.type", kind
            if kind == "striped":
                yield VOLUME, "lv.stripes", _number(options.get("stripes")) or float(len(data))
                yield VOLUME, "lv.stripe_size", _number(options.get("stripe_size"))
        case "lvm_cache" | "bcache":
            yield VOLUME, "cache.mode", str(options.get("mode") or options.get("cache_mode") or "")
            yield VOLUME, "cache.sequential_cutoff", _number(options.get("sequential_cutoff"))
        case "dm_crypt":
            flags = ("no_read_workqueue", "no_write_workqueue")
            yield "crypt", "crypt.flags", " ".join(flag for flag in flags if options.get(flag))
            yield "crypt", "crypt.sector", _number(options.get("sector_size"))
            yield "crypt", "crypt.cipher", str(options.get("cipher") or "")
        case "filesystem":
            yield "/", "mount.type", str(options.get("type") or "")
            yield "/", "mount.options", ",".join(map(str, options.get("mount_options") or ()))


def _number(value: object) -> float | None:
    """The value as a number; None for what is none."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _vdevs(options: Mapping[str, Any], disks: int) -> str:
    """Kinds of a pool's data vdevs, with one blank between: "mirror mirror"."""
    layout = str(options.get("layout") or "stripe")
    if layout == "stripe" or not disks:
        return ""
    width = _number(options.get("width")) or (2 if layout == "mirror" else disks)
    return " ".join([layout] * max(int(disks // width), 1))
