"""fio's figures against fio's own, and how jobs merge."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.tools import _fio_json as fio_json
from agents.tools import _fio_model as model
from tests.agents.test_tools import CASES

REAL = [
    pytest.param(path, id=path.stem)
    for path in sorted((CASES / "fio").glob("3.*.json"))
    if path.name
    in {"3.25-randrw.json", "3.33-randrw.json", "3.33-fdatasync.json"}
    | {"3.39-fdatasync.json", "3.41-randread.json", "3.33-unified-both.json"}
]


@pytest.mark.parametrize("path", REAL)
def test_percentiles_from_bins_are_those_fio_prints(path: Path) -> None:
    jobs, _ = fio_json.jobs(path.read_text())
    parts = [part.clat for job in jobs for part in job.traffic.values()]
    parts += [job.sync for job in jobs]
    checked = [part for part in parts if part is not None]
    assert checked
    for part in checked:
        assert part.bins and part.percentiles
        for rank, printed in part.percentiles.items():
            assert model.percentile(part.bins, rank) == printed, rank


@pytest.mark.parametrize("path", REAL)
def test_mean_and_deviation_agree_with_the_bins(path: Path) -> None:
    """A bin is at most 1/64 of its value wide, so the histogram must tell the same story as the mean."""
    jobs, _ = fio_json.jobs(path.read_text())
    clat = model.merge(part.clat for job in jobs for part in job.traffic.values())
    assert clat is not None and clat.bins
    samples = [latency for latency, hits in clat.bins.items() for _ in range(hits)]
    assert statistics.fmean(samples) == pytest.approx(clat.mean, rel=0.01)
    assert statistics.stdev(samples) == pytest.approx(clat.stddev, rel=0.02)


Samples = st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=30)


def kept(samples: list[float]) -> model.Latencies:
    return model.Latencies(
        count=len(samples),
        mean=statistics.fmean(samples),
        stddev=statistics.stdev(samples),
        low=min(samples),
        high=max(samples),
        bins={value: samples.count(value) for value in samples},
    )


@given(st.lists(Samples, min_size=2, max_size=5))
def test_merging_is_as_if_one_job_had_run(parts: list[list[float]]) -> None:
    merged = model.merge(kept(part) for part in parts)
    every = [sample for part in parts for sample in part]
    alone = kept(every)
    assert merged is not None
    assert merged.count == alone.count
    assert merged.mean == pytest.approx(alone.mean)
    assert merged.stddev == pytest.approx(alone.stddev, rel=1e-6, abs=1e-9)
    assert (merged.low, merged.high, merged.bins) == (alone.low, alone.high, alone.bins)


def test_fast_and_slow_jobs_are_weighted() -> None:
    fast = model.Latencies(900, 1.0, 0.0, 1.0, 1.0, {1.0: 900})
    slow = model.Latencies(100, 10.0, 0.0, 10.0, 10.0, {10.0: 100})
    merged = model.merge([fast, slow, None])
    assert merged is not None and merged.mean == pytest.approx(1.9)
    assert model.percentile(merged.bins, 90) == 1.0
    assert model.percentile(merged.bins, 90.1) == 10.0


def test_half_a_histogram_is_none() -> None:
    binned = model.Latencies(10, 1.0, 0.0, 1.0, 1.0, {1.0: 10}, {50.0: 1.0})
    plain = model.Latencies(10, 1.0, 0.0, 1.0, 1.0, {}, {50.0: 1.0})
    merged = model.merge([binned, plain])
    assert merged is not None and not merged.bins and not merged.percentiles


def test_depth_is_the_one_fio_was_given() -> None:
    (job,), _ = fio_json.jobs((CASES / "fio" / "3.41-randread.json").read_text())
    reached = {m.name: m.value for m in model.metrics([job], depth=64)}["depth.reached"]
    assert job.depth == 4 and reached == pytest.approx(1.0, abs=1e-3)


def test_keys_that_differ_when_repeated_are_refused() -> None:
    text = (CASES / "fio" / "3.41-randread.json").read_text()
    runtime = json.loads(text)["jobs"][0]["read"]["runtime"]
    once = f'"runtime" : {runtime},'
    same = text.replace(once, once * 2, 1)
    assert fio_json.jobs(same) == fio_json.jobs(text)
    with pytest.raises(model.ParseError, match="twice"):
        fio_json.jobs(text.replace(once, once + f'"runtime" : {runtime + 1},', 1))
