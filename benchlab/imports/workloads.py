# SPDX-License-Identifier: Apache-2.0
"""Workloads of imported results: which results are repeats of each other, what the others differ in, and their names.

Two results are of one workload only if no option differs, known to the tool here or not. Two kinds of options are
treated apart. Those that set the outstanding I/Os are the point of a run: several of them make a curve. Names and
places (a job's name, the file under test) differ from layout to layout, so they count only within one.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agents.contracts import Unit
from agents.drivers import registry
from agents.texts.parsed_result import ParsedResult
from benchlab.campaigns import matrix

MAX_NAME = 90
# characters of a value in a name
MAX_WORD = 30
# Of one point of a 10,000 rpm disk, measured twice within two hours, fio-plot's data has up to 3.1 times.
FAR_APART = 3.0
# Options that say where a tool worked or what its author called it: fio's, then dd's, pg_test_fsync's and bonnie++'s.
PLACES = frozenset({"name", "filename", "directory", "description", "if", "of", "d"})
# What a name says of every workload: these by their value alone, those behind by name.
PATTERNS = ("rw", "mode", "direction")
HEAD = (*PATTERNS, "block_size", "bs", "rwmixread")
# Options that people compare come first where several tell workloads apart.
TELLING = (
    "direct",
    "sync",
    "fsync",
    "fdatasync",
    "end_fsync",
    "oflag",
    "iflag",
    "conv",
    "extra_flags",
    "fsync_freq",
    "rate",
    "rate_iops",
    "ioengine",
)
SHORT_NAMES = {"block_size": "bs", "runtime_s": "runtime", "ramp_s": "ramp_time", "time_s": "time"}
HEADLINES = ("iops", "bandwidth", "read.iops", "write.iops", "read.bandwidth", "write.bandwidth")
RATES = (Unit.OPS_PER_SECOND, Unit.BYTES_PER_SECOND)


@dataclass(frozen=True, slots=True)
class Work:
    """A result beside others. `name`: what a person called its workload; `cell`: where it ran."""

    parsed: ParsedResult
    name: str = ""
    cell: Hashable = ()
    # what a person or an article says that it varies
    point: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tool(self) -> str:
        return self.parsed.tool or self.parsed.kind

    @property
    def options(self) -> dict[str, Any]:
        """Options that tell it apart, without its point; of a result without options what else is known."""
        parsed = self.parsed
        if parsed.options:
            return {k: v for k, v in parsed.options.items() if k not in self.point}
        if parsed.command:
            return {"command": parsed.command}
        moved = [metric.value for metric in parsed.metrics if metric.name == "bytes"]
        return {"bytes": moved[0]} if moved else {}

    @property
    def depths(self) -> dict[str, Any]:
        names = registry.depth_options(self.tool) if self.tool in registry.all_tools() else ()
        return {name: value for name, value in self.options.items() if name in names}


@dataclass(frozen=True, slots=True)
class NamedWorkload:
    """The workload of a result: its name, its options without those of the point, and the point."""

    name: str
    options: Mapping[str, Any]
    point: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Key:
    """Results of equal keys are of one workload."""

    name: str
    tool: str
    varies: str
    work: str
    places: str = ""
    # 0: nothing is far apart
    part: int = 0


def name_workloads(works: Sequence[Work], *, are_repeats: bool = False) -> list[NamedWorkload]:
    """The workload of each result. `are_repeats`: figures far apart are no reason to tell equal results apart."""
    keys, options = _workload_keys(works)
    if not are_repeats:
        keys = _keys_apart(works, keys)
    of_key: dict[_Key, Mapping[str, Any]] = {}
    for key, own in zip(keys, options, strict=True):
        of_key.setdefault(key, own)
    names = _unique_names(of_key)
    varied = _varied_depths(works, keys)
    return [
        NamedWorkload(
            names[key],
            of_key[key],
            {name: value for name, value in work.depths.items() if name in varied[key]},
        )
        for work, key in zip(works, keys, strict=True)
    ]


def _workload_keys(works: Sequence[Work]) -> tuple[list[_Key], list[dict[str, Any]]]:
    """The key of each result, and the options that make it."""
    keys: list[_Key] = []
    options: list[dict[str, Any]] = []
    for work in works:
        own = {k: v for k, v in work.options.items() if k not in work.depths and k not in PLACES}
        keys.append(_Key(work.name, work.tool, work.parsed.varies, _canonical(own)))
        options.append(own)
    places = [{k: v for k, v in work.options.items() if k in PLACES} for work in works]
    in_cell: dict[tuple[_Key, Hashable], set[str]] = defaultdict(set)
    for work, key, place in zip(works, keys, places, strict=True):
        in_cell[key, work.cell].add(_canonical(place))
    split = {key for (key, _), several in in_cell.items() if len(several) > 1}
    for index, key in enumerate(keys):
        if key in split:
            keys[index] = replace(key, places=_canonical(places[index]))
            options[index] = {**options[index], **places[index]}
    return keys, options


def _canonical(options: Mapping[str, Any]) -> str:
    return json.dumps(options, sort_keys=True, default=str)


def _keys_apart(works: Sequence[Work], keys: Sequence[_Key]) -> list[_Key]:
    """Keys with a part for each of the results that are far apart."""
    apart = list(keys)
    for indexes in _equal_results(works, keys):
        parts = _parts([headline_value(works[index].parsed) for index in indexes])
        if max(parts, default=1) > 1:
            for index, part in zip(indexes, parts, strict=True):
                apart[index] = replace(keys[index], part=part)
    # other points of a curve stay with the first
    split = {replace(key, part=0) for key in apart if key.part}
    return [replace(key, part=1) if key in split else key for key in apart]


def _equal_results(works: Sequence[Work], keys: Sequence[_Key]) -> list[list[int]]:
    """Indexes of the results between which nothing differs."""
    equal: dict[tuple[_Key, Hashable, str], list[int]] = defaultdict(list)
    for index, (work, key) in enumerate(zip(works, keys, strict=True)):
        point = {**work.depths, **work.point, "outstanding": work.parsed.outstanding}
        equal[key, work.cell, _canonical(point)].append(index)
    return list(equal.values())


def _parts(values: Sequence[float | None]) -> list[int]:
    """Number of the part of each value, from 1 in their order: within a part none is FAR_APART times another."""
    least: list[float] = []
    for value in sorted(value for value in values if value):
        if not least or value > FAR_APART * least[-1]:
            least.append(value)
    of_value = [
        max((at for at, low in enumerate(least) if (value or 0) >= low), default=0)
        for value in values
    ]
    order = list(dict.fromkeys(of_value))
    return [order.index(at) + 1 for at in of_value]


def headline_value(parsed: ParsedResult) -> float | None:
    """The rate that people quote of a result; None where it has none."""
    plain = {m.name: m for m in parsed.metrics if not m.labels and m.value is not None}
    named = (plain[name] for name in HEADLINES if name in plain)
    metric = next(named, next((m for m in plain.values() if m.unit in RATES), None))
    return metric.value if metric else None


@dataclass(frozen=True, slots=True)
class FarApart:
    """Results, by their index, between which nothing differs but figures that are `times` apart."""

    indexes: tuple[int, ...]
    times: float


def find_far_apart(works: Sequence[Work]) -> list[FarApart]:
    """Results of which a person must say whether they are repeats."""
    keys, _ = _workload_keys(works)
    found = []
    for indexes in _equal_results(works, keys):
        values = [value for index in indexes if (value := headline_value(works[index].parsed))]
        if values and max(values) > FAR_APART * min(values):
            found.append(FarApart(tuple(indexes), max(values) / min(values)))
    return found


def _varied_depths(works: Sequence[Work], keys: Sequence[_Key]) -> dict[_Key, set[str]]:
    """Names of the options of the outstanding I/Os that differ within each workload."""
    depths: dict[_Key, list[Mapping[str, Any]]] = defaultdict(list)
    for work, key in zip(works, keys, strict=True):
        depths[key].append(work.depths)
    return {key: set(differing_options(rows)) for key, rows in depths.items()}


def differing_options(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the options that are not the same in all rows: the telling ones first, places last."""
    names = dict.fromkeys(name for row in rows for name in row)
    differing = [
        name for name in names if len({_canonical({"": row.get(name)}) for row in rows}) > 1
    ]
    return sorted(differing, key=_rank)


def _rank(name: str) -> int:
    own = name.rpartition(".")[2]
    if own in HEAD:
        return HEAD.index(own)
    if own in TELLING:
        return len(HEAD) + TELLING.index(own)
    return 1000 if own in PLACES else 100


def _unique_names(options_of_key: Mapping[_Key, Mapping[str, Any]]) -> dict[_Key, str]:
    """A name for each workload, from its tool, its pattern and what tells it from the others."""
    alike: dict[tuple[str, str, str], list[_Key]] = defaultdict(list)
    for key in options_of_key:
        alike[key.name, key.tool, key.varies].append(key)
    names: dict[_Key, str] = {}
    for keys in alike.values():
        rows = [options_of_key[key] for key in keys]
        differing, telling = differing_options(rows), _telling_options(rows)
        for key, options in zip(keys, rows, strict=True):
            words = [key.name] if key.name else [key.tool, *option_words(options, HEAD)]
            shown = () if key.name else HEAD
            own = option_words(options, [name for name in telling if name not in shown])
            # what the others lack is worth a word as well
            own = (
                own or option_words(options, [name for name in differing if name not in shown])[:1]
            )
            words += own
            # sweeps over different things do not share a chart's axis
            if key.varies and not key.name:
                words.append(f"over {key.varies.replace('_', ' ')}")
            names[key] = _fitting(words, f", part {key.part}" if key.part else "")
    seen: Counter[tuple[str, str]] = Counter()
    for key, name in names.items():
        seen[key.tool, name] += 1
        if (count := seen[key.tool, name]) > 1:
            names[key] = _fitting(name.split(" "), f" ({count})")
    return names


def _telling_options(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The first of the differing options that together tell all rows apart."""
    telling: list[str] = []
    told_apart = 1
    for name in differing_options(rows):
        count = len({_canonical({key: row.get(key) for key in (*telling, name)}) for row in rows})
        if count > told_apart:
            telling.append(name)
            told_apart = count
    return telling


def option_words(options: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """ "randread", "bs=4k", "sync=1" for those of the options that are there, in the tool's words."""
    return [
        option_text(name, options[name])
        if name not in (*PATTERNS, "name")
        else str(options[name])[:MAX_WORD]
        for name in names
        if options.get(name) not in (None, "")
    ]


def option_text(name: str, value: Any) -> str:
    """ "bs=4k", "time_based", "oflag=direct,sync"."""
    short = SHORT_NAMES.get(name, name)
    return short if value is True else f"{short}={value_text(name, value)}"


def value_text(name: str, value: Any) -> str:
    """The value as a command line has it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, list | tuple):
        return ",".join(value_text(name, item) for item in value)
    if isinstance(value, int) and value and name in matrix.SIZE_OPTIONS:
        power = next(power for power in (4, 3, 2, 1, 0) if not value % (1 << 10 * power))
        return f"{value >> 10 * power}{' kmgt'[power].strip()}"
    return str(value)[-MAX_WORD:]


def _fitting(words: Sequence[str], end: str) -> str:
    """As many of the words as fit; at least a part of the first."""
    name = words[0][: MAX_NAME - len(end)]
    for word in words[1:]:
        if len(name) + 1 + len(word) + len(end) <= MAX_NAME:
            name = f"{name} {word}"
    return name + end
