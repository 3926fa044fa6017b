# SPDX-License-Identifier: Apache-2.0
"""Names of metrics for people, the first metric of each tool, and metrics that are shown together.

A choice is a metric's name ("one.fsync.ops") or a family, a pattern with one star ("one.*.ops").
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

# The rates that most tools have: the word on the axis, the unit.
METRICS = {"iops": ("IOPS", "op/s"), "bandwidth": ("Throughput", "B/s")}
# What latency may mean, in the order in which it is shown unless a person chose: total where a tool tells it, else what
# it does tell. Every page takes the words from here.
LATENCY_KINDS = {
    "lat": "Total latency",
    "clat": "Completion latency",
    "slat": "Submission latency",
}
STATISTICS = ("mean", "p50", "p99", "p99.9")
# What a page shows of a tool unless told otherwise: the first that was measured. PostgreSQL's documentation of
# wal_sync_method: fdatasync is the default on Linux and FreeBSD. FreeBSD before 11.1 has no fdatasync.
FIRST_METRICS: Mapping[str, tuple[str, ...]] = {
    "pg_test_fsync": ("one.fdatasync.ops", "one.fsync.ops"),
    "bonnie": ("*.bandwidth",),
}
FAMILIES: Mapping[str, Mapping[str, str]] = {
    "pg_test_fsync": {
        "one.*.ops": "Every method, one write",
        "two.*.ops": "Every method, two writes",
        "open_sync.*.ops": "open_sync by size of the writes",
        "other_descriptor.*.ops": "fsync on another descriptor",
    },
    "bonnie": {
        "*.bandwidth": "Sequential rates",
        "*.ops": "Seeks and files per second",
        "*.latency": "Longest latencies",
        "*.cpu": "CPU",
    },
}
PHRASES = (
    (re.compile(r"one\.(\w+)\.(?:ops|latency)"), r"\1, one write"),
    (re.compile(r"two\.(\w+)\.(?:ops|latency)"), r"\1, two writes"),
    (re.compile(r"open_sync\.(\d+)x(\d+)\.(?:ops|latency)"), r"open_sync, \1 × \2 kB"),
    (re.compile(r"other_descriptor\.(\w+)\.(?:ops|latency)"), r"\1, another descriptor"),
    (re.compile(r"steady\.attained"), "Steady state attained (1) or not (0)"),
    (re.compile(r"steady\.iops"), "IOPS in steady state"),
    (re.compile(r"steady\.bandwidth"), "Throughput in steady state"),
    (re.compile(r"steady\.lat\.mean"), "Latency in steady state, mean"),
    (re.compile(r"steady\.window"), "Steady state: time it was measured over"),
    (re.compile(r"steady\.deviation"), "Steady state: deviation or slope found"),
    (re.compile(r"target\.depth"), "Depth that keeps the latency target"),
    (re.compile(r"target\.lat"), "Latency target"),
    (re.compile(r"target\.percentile"), "Latency target: share of I/Os within"),
    (re.compile(r"target\.window"), "Latency target: time it must hold"),
    (re.compile(r"unsynced\.write\.(?:ops|latency)"), "writes without sync"),
)
SHARE_WORDS = {"util", "cpu", "reached", "deviation", "percentile"}
METRIC_NAME = re.compile(r"[a-z*][a-z0-9_*]*(?:\.[a-z0-9_*-]+){0,6}")


def is_metric_name(text: str) -> bool:
    """True when it may be a choice at all."""
    return len(text) <= 100 and bool(METRIC_NAME.fullmatch(text)) and text.count("*") <= 1


def metric_word(name: str) -> str:
    """Name of a choice or a metric for people; its own where nobody gave it another."""
    if name in METRICS:
        return METRICS[name][0]
    for families in FAMILIES.values():
        if name in families:
            return families[name]
    for pattern, phrase in PHRASES:
        if pattern.fullmatch(name):
            return pattern.sub(phrase, name) + (", time" if name.endswith(".latency") else "")
    return name


def latency_word(name: str) -> str:
    """Name of a latency on a page: "clat.p99" -> "Completion latency, p99"."""
    kind, _, statistic = name.partition(".")
    return f"{LATENCY_KINDS[kind]}, {statistic}"


def metric_title(name: str) -> str:
    """Heading for any metric: "Total latency, p99", "IOPS"."""
    kind, _, statistic = name.partition(".")
    return latency_word(name) if kind in LATENCY_KINDS and statistic else metric_word(name)


def family_members(choice: str, names: Iterable[str]) -> list[str]:
    """The metrics that a choice stands for: those of a family in the order of `names`."""
    if "*" not in choice:
        return [name for name in names if name == choice]
    before, _, after = choice.partition("*")
    return [
        name
        for name in names
        if name.startswith(before) and name.endswith(after) and len(name) > len(choice) - 1
    ]


def member_word(choice: str, name: str) -> str:
    """Part of the name that tells a member of a family from the others: "one.*.ops", "one.fsync.ops" -> "fsync"."""
    before, _, after = choice.partition("*")
    return name.removeprefix(before).removesuffix(after)


def is_share(name: str, unit: str) -> bool:
    """True when a figure without a unit is a part of a whole, which people read in percent."""
    return unit == "1" and not SHARE_WORDS.isdisjoint(name.split("."))


def order_choices(names: Collection[str], tool: str, swept: bool) -> list[str]:
    """Every choice among these metrics, the one to show unless told otherwise first; else in the tool's order."""
    rates = [metric for metric in METRICS if metric in names]
    # without a sweep it is a streaming tool more often than not
    if not swept:
        rates = rates[::-1]
    families = [] if swept else list(FAMILIES.get(tool, ()))
    choices = [*FIRST_METRICS.get(tool, ()), *rates, *families, *names]
    return list(dict.fromkeys(choice for choice in choices if family_members(choice, names)))
