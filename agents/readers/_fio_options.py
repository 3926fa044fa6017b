"""What a result of fio tells of the run that made it: names, options, I/Os in flight. Pure, never raises."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from agents.tools import _fio_jobfile as jobfile
from agents.tools import _fio_text

STARTED = re.compile(
    r"(?<!\S)(?P<name>\S{1,200}): \(g=(?P<group>\d{1,6})\): rw=(?P<rw>[a-z]+), (?P<sizes>[^;\n]{1,200}?), "
    r"ioengine=(?P<ioengine>[\w-]+), iodepth=(?P<iodepth>\d{1,6})"
)
SIZE = re.compile(r"(\d{1,9}(?:\.\d+)?)([KMG]?)i?B?(?=[-/,\s]|\Z)", re.IGNORECASE)
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
ENGINE = "psync"  # what fio takes where it is told nothing, on Linux


@dataclass(frozen=True, slots=True)
class Told:
    title: str = ""
    version: str = ""
    command: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    outstanding: int | None = None


def of_text(block: str) -> Told:
    """`name: (g=0): rw=randread, bs=4K-4K/4K-4K, ioengine=libaio, iodepth=64` of each job, `jobs=2` of each result."""
    started = {found["name"]: found for found in STARTED.finditer(block)}
    names: dict[str, int] = {}
    groups = set()
    for head in _fio_text.HEAD.finditer(block):
        name = _fio_text.name(block, head)
        if name != _fio_text.ALL_CLIENTS:
            names[name] = names.get(name, 0) + int(head[2][:9])
            groups.add(head[1])
    told = [_of_line(started[name]) for name in names if name in started]
    shared = _same(told) if len(told) == len(names) else {}
    depths = [
        _depth(one.get("ioengine"), one.get("iodepth")) * count
        for one, count in zip(told, names.values(), strict=False)
    ]
    certain = len(told) == len(names) and len(groups) == 1
    options = shared | ({"numjobs": sum(names.values())} if len(names) == 1 and shared else {})
    return Told(", ".join(names)[:200], "", "", options, sum(depths) if certain else None)


def _of_line(found: re.Match[str]) -> dict[str, Any]:
    sizes = {
        _bytes(number, unit) for number, unit in SIZE.findall(found["sizes"].replace("bs=", ""))
    }
    known: dict[str, Any] = {"ioengine": found["ioengine"], "iodepth": int(found["iodepth"])}
    if found["rw"] in jobfile.DIRECTIONS:
        known["rw"] = found["rw"]
    if len(sizes) == 1:
        known["block_size"] = sizes.pop()
    return known


def of_document(text: str) -> Told:
    """ "global options" and "job options" of JSON."""
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        return Told()
    jobs = data.get("jobs") or data.get("client_stats")
    jobs = [job for job in jobs if isinstance(job, dict)] if isinstance(jobs, list) else []
    jobs = [job for job in jobs if job.get("jobname") != _fio_text.ALL_CLIENTS] or jobs
    names = dict.fromkeys(str(job.get("jobname", ""))[:60] for job in jobs)
    version = str(data.get("fio version", "")).removeprefix("fio-")[:40]
    shared = _options(data.get("global options"))
    each = [shared | _options(job.get("job options")) for job in jobs]
    known = [_known(one) for one in each]
    copies = [_copies(one) if len(names) == len(jobs) else 1 for one in each]
    depths = [
        _depth(one.get("ioengine"), known_one.get("iodepth")) * count
        for one, known_one, count in zip(each, known, copies, strict=True)
    ]
    certain = bool(shared or any(each)) and len({job.get("groupid") for job in jobs}) == 1
    same = _same(known)
    if len(names) == 1 and same:
        same["numjobs"] = sum(copies)
    return Told(", ".join(names)[:200], version, "", same, sum(depths) if certain else None)


def _options(data: Any) -> dict[str, str]:
    """Several clients have a list of global options: then they are not everybody's."""
    if not isinstance(data, dict):
        return {}
    return {key: value for key, value in data.items() if isinstance(value, str)}


def _known(told: Mapping[str, str]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for key in ("rw", "readwrite"):
        if told.get(key) in jobfile.DIRECTIONS:
            known["rw"] = told[key]
    for key in ("bs", "blocksize"):
        size = SIZE.fullmatch(told.get(key, ""))
        if size:
            known["block_size"] = _bytes(size[1], size[2])
    if "ioengine" in told:
        known["ioengine"] = told["ioengine"][:40]
    for key in ("iodepth", "rwmixread", "fsync", "fdatasync"):
        if told.get(key, "").isdecimal():
            known[key] = int(told[key][:9])
    if told.get("direct") in ("0", "1"):
        known["direct"] = told["direct"] == "1"
    return known


def _copies(told: Mapping[str, str]) -> int:
    """Of a job whose name is there once: without group_reporting fio prints each copy by itself."""
    count = told.get("numjobs", "1")
    return max(int(count[:6]), 1) if count.isdecimal() else 1


def _depth(engine: Any, depth: Any) -> int:
    if (engine or ENGINE) in jobfile.SYNC_ENGINES:
        return 1
    return depth if isinstance(depth, int) and depth else 1


def _same(told: list[dict[str, Any]]) -> dict[str, Any]:
    """What all of them agree on."""
    if not told:
        return {}
    return {
        key: value for key, value in told[0].items() if all(one.get(key) == value for one in told)
    }


def _bytes(number: str, unit: str) -> int:
    return int(float(number) * UNITS[unit.lower()])
