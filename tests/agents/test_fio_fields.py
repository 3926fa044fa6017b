"""Fields of fio's JSON that are needed, and a result without each: an older fio's is read, else it is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import pytest

from agents.contracts import Metric, ParseError
from agents.outputs import fio_aims as fields
from agents.outputs import fio_json, fio_terse
from agents.tools import fio
from tests.agents.test_fio_versions import PATHS, document
from tests.agents.test_tools import CASES
from tests.each_case import check_each

DIRECTIONS = ("read", "write", "trim", "mixed")
LATENCIES = ("slat_ns", "clat_ns", "lat_ns")
# Looked up by readers and for the window.
OTHERS = {"timestamp", "timestamp_ms", "job_start", "jobname", "job_runtime", "hostname", "port"}
TABLES = (fields.DOCUMENT, fields.JOB, fields.DIRECTION, fields.LATENCY, fields.STEADY)
LATER = sorted({since for table in TABLES for since in table.values() if since > (3, 0)})


def places(data: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Mapping[str, fields.Version]]]:
    """Every object of a document, and the table of its fields."""
    yield data, fields.DOCUMENT
    for job in data["jobs"]:
        yield job, fields.JOB
        yield from ((one, fields.LATENCY) for one in latencies(job.get("sync", {}), ("lat_ns",)))
        for name in DIRECTIONS:
            if one := job.get(name):
                yield one, fields.DIRECTION
                yield from ((part, fields.LATENCY) for part in latencies(one, LATENCIES))
        if "steadystate" in job:
            yield job["steadystate"], fields.STEADY


def latencies(data: dict[str, Any], names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [data[name] for name in names if name in data]


def parsed(data: dict[str, Any], options: fio.Options | None = None) -> list[Metric]:
    return fio.parse({"stdout": json.dumps(data).encode()}, options or fio.Options())


class Watched(dict[str, Any]):
    """Remembers what was looked up in it."""

    def __init__(self, data: Mapping[str, Any], asked: set[str]) -> None:
        super().__init__({k: Watched(v, set()) if isinstance(v, dict) else v for k, v in data.items()})  # fmt: skip
        self.asked = asked

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)


def test_every_field_that_is_read_is_named() -> None:
    """2.x names of latencies, without their unit, are the exception: they are looked for where the others are not."""
    check_each(check_fields, PATHS, name=attrgetter("stem"))


def check_fields(path: Any) -> None:
    old = {"slat", "clat", "lat"}
    for raw in document(path)["jobs"]:
        job = Watched(raw, set())
        fio_json._parse_job(job, {}, "fio-3.33", "jobs[0]", fio_json._Spot({}, 0))
        for one, table in places({"jobs": [job]}):
            asked = one.asked if isinstance(one, Watched) else set()
            known = {name.partition(".")[0] for name in table} | (
                old if table is fields.DIRECTION else set()
            )
            assert asked <= known, asked - known


STEADY = {"data": {"iops_mean": 1, "bw_mean": 1, "lat_mean": 1}, "attained": 1, "duration": 1}
GOAL = dict.fromkeys((name for name in fields.JOB if name.startswith("latency_")), 1)


def test_every_field_named_is_read() -> None:
    asked = set(fields.DOCUMENT) | OTHERS
    for path in PATHS:
        for raw in document(path)["jobs"]:
            for late in (True, False):
                job = Watched({"steadystate": STEADY, **raw, **GOAL}, set())
                for one, table in places({"jobs": [job]}):
                    for name in () if late else table:
                        one.pop(name, None) if name in fields.INSTEAD else None
                fio_json._parse_job(job, {}, "fio-3.42", "jobs[0]", fio_json._Spot({}, 0))
                for one, _ in places({"jobs": [job]}):
                    asked |= one.asked if isinstance(one, Watched) else set()
                asked |= {f"data.{name}" for name in job["steadystate"]["data"].asked}
    assert set().union(*TABLES) <= asked


def test_flushes_that_were_asked_for_and_not_told_are_named() -> None:
    """Before 3.4 there is no "sync": who asked for fdatasync reads why its figure is missing."""
    data = document(CASES / "fio" / "3.16-stonewall.json")
    asked = fio.Options(fdatasync=1)
    for job in data["jobs"]:
        del job["sync"]
    (told,) = (m for m in parsed(data, asked) if m.name.startswith("sync."))
    assert told.value is None
    assert "since 3.4" in told.note
    assert not any(m.name.startswith("sync.") for m in parsed(data))


@pytest.mark.parametrize("version", LATER, ids=lambda version: f"before-{version[0]}.{version[1]}")
def test_a_result_of_an_older_fio_is_read(version: fields.Version) -> None:
    """All that this version and later ones brought is taken away: what is left tells the same, or does not tell it."""
    check_each(lambda path: check_older(path, version), PATHS, name=attrgetter("stem"))


def check_older(path: Any, version: fields.Version) -> None:
    data = document(path)
    whole = {(m.name, *m.labels.values()): m.value for m in parsed(data)}
    for one, table in places(data):
        for name, since in table.items():
            if since >= version:
                assert name in fields.INSTEAD, name
                one.pop(name, None)
    found = {(m.name, *m.labels.values()): m.value for m in parsed(data)}
    lost = {key for key in whole if key not in found}
    assert all(key[0].startswith("sync.") for key in lost)
    for key, value in found.items():
        if key[0].endswith("bandwidth"):
            assert value == pytest.approx(whole[key], abs=1024 * len(data["jobs"]) * 2)
        elif ".stddev" in key[0] or ".mean" in key[0]:
            assert value == pytest.approx(whole[key], rel=2e-3), key
        else:
            assert value == whole[key], key


NEEDED = {
    "error": fields.JOB,
    **dict.fromkeys(("iops", "runtime", "io_bytes", "bw"), fields.DIRECTION),
    **dict.fromkeys(("min", "mean", "stddev", "max"), fields.LATENCY),
    **dict.fromkeys(("attained", "duration"), fields.STEADY),
}


@pytest.mark.parametrize("name", NEEDED)
def test_a_document_without_a_field_that_all_have_is_refused_by_its_name(name: str) -> None:
    data = document(CASES / "fio" / "3.33-steady-slope.json")
    for one, table in places(data):
        if table is NEEDED[name]:
            one.pop(name, None)
            one.pop("bw_bytes" if name == "bw" else name, None)
    with pytest.raises(
        ParseError, match=rf"\.{name} is missing, although fio prints it since 3\.0"
    ):
        parsed(data)


@pytest.mark.parametrize(
    ("told", "latency", "window"),
    [
        ("fio-3.0", 20000, 300_000),
        ("fio-3.2", 20000, 300_000),
        ("fio-3.3", 20_000_000, 300_000_000),
        ("fio-3.20", 20_000_000, 300_000_000),
        ("fio-3.21", 20_000_000, 300_000),
        ("fio-3.33", 20_000_000, 300_000),
        ("fio-3.41-39-gabcdef", 20_000_000, 300_000),
    ],
)
def test_a_latency_target_in_the_unit_of_its_version(told: str, latency: int, window: int) -> None:
    data = document(CASES / "fio" / "3.33-latency-target.json")
    data["fio version"] = told
    data["jobs"][0] |= {"latency_target": latency, "latency_window": window}
    found = {m.name: m for m in parsed(data)}
    assert found["target.depth"].value == 32 and found["target.percentile"].value == 0.7
    assert found["target.lat"].value == pytest.approx(0.02)
    assert found["target.window"].value == pytest.approx(0.3)
    del data["fio version"]
    assert {m.name: m.value for m in parsed(data)}["target.lat"] is None
    data["jobs"][0] |= {"latency_target_ns": 20_000_000}
    assert {m.name: m.value for m in parsed(data)}["target.lat"] == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("layout", "lengths"), [(2, (21, 41)), (3, (21, 41)), (4, (21, 41)), (5, (27, 47))]
)
def test_a_direction_of_a_terse_line_has_two_lengths(layout, lengths):
    """Without percentiles (before fio 1.58) and with them; version 5 has six more of each."""
    record: Any = SimpleNamespace(layout=layout)
    forms = list(fio_terse._Record._forms(record))
    assert forms == [(count, length) for length in lengths for count in (1, 2, 3, 4)]
