"""fio's JSON of every version that we have: rates and latencies are sums that this test makes from the raw document."""

from __future__ import annotations

import json
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.drivers import text_reading
from agents.outputs import fio_aims, fio_json
from agents.outputs.fio_model import SteadyState
from agents.tools import fio
from tests.agents.test_tools import CASES, SUFFIX, expectation
from tests.each_case import check_each

# Not whole, several results, or clients, whose sum fio itself prints: test_fio_numbers.py.
OTHERS = (
    "client",
    "status-interval",
    "two-results",
    "handwritten",
    "nan",
    "inconsistent",
    "foreign",
    "unified-both",
)
PATHS = [
    path
    for path in sorted((CASES / "fio").glob("3.*.json"))
    if not path.name.endswith(SUFFIX)
    and not any(word in path.name for word in OTHERS)
    and "error" not in expectation(path.with_suffix(SUFFIX))
]


def document(path: Path) -> dict[str, Any]:
    """Whatever fio printed before its JSON left out."""
    text = path.read_text()
    return json.JSONDecoder().raw_decode(text[text.index("{\n") :])[0]


def test_figures_are_sums_over_the_jobs() -> None:
    check_each(check_sums, PATHS, name=attrgetter("stem"))


def check_sums(path: Path) -> None:
    metrics = fio.parse({"stdout": path.read_bytes()}, fio.Options())
    groups: dict[int, list[dict[str, Any]]] = {}
    for job in document(path)["jobs"]:
        groups.setdefault(job["groupid"], []).append(job)
    for number, jobs in groups.items():
        label = {"group": str(number)} if len(groups) > 1 else {}
        found = {m.name: m.value for m in metrics if m.labels == label}
        busy = [name for name in ("read", "write", "trim", "mixed") if ios(jobs, name)]
        assert busy
        for name in busy:
            parts = [job[name] for job in jobs if job.get(name, {}).get("total_ios")]
            # Mixed by fio, directions have no figures of their own, and the whole has no slat.
            prefix = "" if name == "mixed" else f"{name}."
            assert found[f"{prefix}iops"] == pytest.approx(
                over_the_longest(parts, "total_ios"), rel=2e-3
            )
            assert found[f"{prefix}bandwidth"] == pytest.approx(
                over_the_longest(parts, "io_bytes"), rel=2e-3
            )
            for kind in ("slat", "clat", "lat") if prefix else ("clat", "lat"):
                wanted = mean(parts, f"{kind}_ns")
                got = found.get(f"{prefix}{kind}.mean")
                assert got == (wanted and pytest.approx(wanted, rel=1e-6)), (name, kind)


def ios(jobs: list[dict[str, Any]], name: str) -> int:
    return sum(job.get(name, {}).get("total_ios", 0) for job in jobs)


def over_the_longest(parts: list[dict[str, Any]], what: str) -> float:
    """Jobs side by side: all that was done over the longest of them."""
    return sum(part[what] for part in parts) / max(part["runtime"] for part in parts) * 1000


def mean(parts: list[dict[str, Any]], kind: str) -> float | None:
    """In seconds, weighted by I/Os; None where nothing was measured."""
    seen = [part for part in parts if part.get(kind, {}).get("max")]
    if not seen:
        return None
    return sum(part[kind]["mean"] * part["total_ios"] for part in seen) / ios_of(seen) / 1e9


def ios_of(parts: list[dict[str, Any]]) -> int:
    return sum(part["total_ios"] for part in parts)


AIMED = [path for path in PATHS if any(word in path.stem for word in ("steady", "latency-target"))]


@pytest.mark.parametrize("path", AIMED, ids=lambda path: path.stem)
def test_what_was_asked_of_fio_and_reached(path: Path) -> None:
    """Means are made here from the seconds that fio printed; a target's unit is that of the command line."""
    found = {m.name: m.value for m in fio.parse({"stdout": path.read_bytes()}, fio.Options())}
    jobs = document(path)["jobs"]
    steady = [job["steadystate"] for job in jobs if "steadystate" in job]
    if steady:
        attained = all(one["attained"] for one in steady)
        assert found["steady.attained"] == attained
        told = {"iops": "steady.iops", "bw": "steady.bandwidth", "lat_ns": "steady.lat.mean"}
        for name, metric in told.items():
            seconds = steady[0]["data"].get(name)
            if not attained or len(steady) > 1 or seconds is None:
                assert metric not in found
            else:
                mean = sum(seconds) / len(seconds) / (1e9 if name == "lat_ns" else 1)
                assert found[metric] == pytest.approx(mean, rel=1e-3)
    else:
        assert "steady.attained" not in found
        assert found["target.depth"] == jobs[0]["latency_depth"]
        assert [found[f"target.{name}"] for name in ("lat", "window", "percentile")] == [
            0.02,
            0.3,
            0.7,
        ]


CLIENTS = [
    pytest.param(path, id=path.stem)
    for path in sorted((CASES / "fio").glob("3.*client*.json"))
    if not path.name.endswith(SUFFIX) and "error" not in expectation(path.with_suffix(SUFFIX))
]


@pytest.mark.parametrize("path", CLIENTS)
def test_clients_are_summed_once(path: Path) -> None:
    """By group over all clients; fio's own sum is no client, and of one group it says the same."""
    metrics = fio.parse({"stdout": path.read_bytes()}, fio.Options())
    stats = document(path)["client_stats"]
    clients = [one for one in stats if one["jobname"] != "All clients"]
    assert len(stats) - len(clients) == (len(clients) > 1)
    numbers = {one["groupid"] for one in clients}
    for number in numbers:
        label = {"group": str(number)} if len(numbers) > 1 else {}
        found = {m.name: m.value for m in metrics if m.labels == label}
        for name in ("read", "write"):
            parts = [
                one[name] for one in clients if one["groupid"] == number and one[name]["total_ios"]
            ]
            if not parts:
                assert f"{name}.iops" not in found
                continue
            assert found[f"{name}.ios"] == sum(part["total_ios"] for part in parts)
            assert found[f"{name}.bytes"] == sum(part["io_bytes"] for part in parts)
            assert found[f"{name}.iops"] == pytest.approx(
                over_the_longest(parts, "total_ios"), rel=2e-3
            )
            assert found[f"{name}.lat.mean"] == pytest.approx(mean(parts, "lat_ns"), rel=1e-6)
            if len(numbers) == 1 and len(clients) > 1:
                assert found[f"{name}.iops"] == pytest.approx(stats[-1][name]["iops"], rel=2e-3)
                theirs = stats[-1][name]["lat_ns"]["mean"]
                if path.name.startswith("3.1-"):  # whose sum has the last client's mean for all
                    assert theirs == parts[-1]["lat_ns"]["mean"]
                else:
                    assert found[f"{name}.lat.mean"] * 1e9 == pytest.approx(theirs)


def test_a_job_may_have_any_name() -> None:
    """ "All clients" is fio's sum among clients only."""
    data = document(CASES / "fio" / "3.33-plain-json.json")
    data["jobs"][1]["jobname"] = "All clients"
    jobs = list(fio_json.parse_jobs(json.dumps(data).encode())[0])
    assert len(jobs) == len(data["jobs"])


def test_a_depth_that_clients_do_not_share_is_not_told() -> None:
    """Before 3.39 the options of all stand in one object; whose is whose nothing says."""
    for name, depths, outstanding in (
        ("3.1-clients-unlike", None, None),
        ("3.33-clients-unlike", None, None),
        ("3.42-clients-unlike", [4, 16], 20),
        ("3.1-clients-alike", [4, 4], 8),
    ):
        path = CASES / "fio" / f"{name}.json"
        jobs = list(fio_json.parse_jobs(path.read_bytes())[0])
        assert [job.depth for job in jobs] == (depths or [None, None]), name
        assert all(bool(job.levels) == bool(depths) for job in jobs)
        (found,) = text_reading.read_text(path.read_text()).results
        assert found.outstanding == outstanding and not found.trouble, name


def test_samples_without_a_count_are_the_bins_or_the_ios() -> None:
    """Before 3.18 no N is printed, of latencies and of flushes."""
    for name in ("3.16-randrw", "3.16-stonewall", "3.16-no-latencies"):
        assert '"N"' not in (CASES / "fio" / f"{name}.json").read_text()
    raw = (CASES / "fio" / "3.16-stonewall.json").read_bytes()
    jobs = list(fio_json.parse_jobs(raw)[0])
    assert [job.sync and job.sync.count for job in jobs] == [291, None]


@pytest.mark.parametrize(
    ("attained", "several", "figures"),
    [
        ([True], False, {"steady.attained": 1.0, "steady.window": 5.0, "steady.iops": 100.0, "steady.bandwidth": 4e5}),
        ([False], False, {"steady.attained": 0.0, "steady.window": 5.0}),
        ([True, True], True, {"steady.attained": 1.0, "steady.window": 5.0}),
        ([True, False], False, {"steady.attained": 0.0, "steady.window": 5.0}),
        ([True, None], False, {"steady.attained": 0.0, "steady.window": 5.0}),
    ],
)  # fmt: skip
def test_rates_of_a_steady_state_are_those_of_one_job(attained, several, figures) -> None:
    """Of several jobs that attained it a note says why there are no rates."""
    jobs: list[Any] = [
        SimpleNamespace(
            goal=None,
            steady=None
            if one is None
            else SteadyState(one, "iops:5%", 5.0, 100.0, 4e5, None, None),
        )
        for one in attained
    ]
    found = list(fio_aims.aim_metrics(jobs, lambda name: 7))
    assert {one.name: one.value for one in found} == figures
    assert {one.line for one in found} == {7}
    note = f"asked for: iops:5%{'; ' + fio_aims.MOMENTS if several else ''}"
    assert [one.note for one in found] == [note, *[""] * (len(found) - 1)]
