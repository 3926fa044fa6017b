"""fio's figures against fio's own, and how jobs merge."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.contracts import ParseError
from agents.outputs import fio_json, fio_load, fio_text
from agents.outputs import fio_model as model
from agents.tools import _fio_metrics
from tests.agents.test_tools import CASES

# Each json+ among the cases, whatever fio printed it, one job or one direction at a time.
REAL = [
    pytest.param(path, id=path.stem)
    for path in sorted((CASES / "fio").glob("[23].*.json"))
    if "handwritten" not in path.name
    and b'"bins"' in path.read_bytes()
    and "error" not in json.loads(path.with_suffix(".expected.json").read_bytes())
]


def measured(path: Path) -> list[model.Latencies]:
    """Every latency with bins of every job."""
    jobs, _ = fio_json.parse_jobs(path.read_bytes())
    parts = [
        part
        for job in jobs
        for part in (
            job.sync,
            *(getattr(one, kind) for one in job.traffic.values() for kind in model.KINDS),
        )
        if part is not None and part.bins
    ]
    assert parts
    return parts


@pytest.mark.parametrize("path", REAL)
def test_percentiles_from_bins_are_those_fio_prints(path: Path) -> None:
    """Within one bin; from 3.0 on the very same."""
    for part in measured(path):
        assert part.percentiles
        bins = bins_by_seconds(part)
        for rank, printed in part.percentiles.items():
            ours = model.percentiles(bins, [rank])[0]
            assert ours == printed or abs(sorted(bins).index(ours) - nearest(bins, printed)) <= 1


def bins_by_seconds(statistic: model.Latencies) -> dict[float, int]:
    return {float(at) / statistic.bins_per_second: hits for at, hits in statistic.bins.items()}


def nearest(bins: dict[float, int], latency: float) -> int:
    return min(range(len(bins)), key=lambda at: abs(sorted(bins)[at] - latency))


@pytest.mark.parametrize("path", REAL)
def test_mean_and_deviation_agree_with_the_bins(path: Path) -> None:
    """A bin is at most 1/64 of its value wide, so the histogram must tell the same story as the mean."""
    clat = model.merge(measured(path))
    assert clat is not None and clat.bins
    samples = [latency for latency, hits in bins_by_seconds(clat).items() for _ in range(hits)]
    assert statistics.fmean(samples) == pytest.approx(clat.mean, rel=0.01)
    assert statistics.stdev(samples) == pytest.approx(clat.stddev, rel=0.02, abs=clat.mean / 64)


Samples = st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=30)


def kept(samples: list[float]) -> model.Latencies:
    return model.Latencies(
        count=len(samples),
        mean=statistics.fmean(samples),
        stddev=statistics.stdev(samples),
        low=min(samples),
        high=max(samples),
        bins={repr(value): samples.count(value) for value in samples},
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
    fast = model.Latencies(900, 1.0, 0.0, 1.0, 1.0, {"1.0": 900})
    slow = model.Latencies(100, 10.0, 0.0, 10.0, 10.0, {"10.0": 100})
    merged = model.merge([fast, slow, None])
    assert merged is not None and merged.mean == pytest.approx(1.9)
    assert model.percentiles(bins_by_seconds(merged), [90, 90.1]) == [1.0, 10.0]


def test_clients_of_unequal_length_make_what_fio_makes_of_them() -> None:
    """Over the longest of them: who ended early did nothing behind that."""
    path = CASES / "fio" / "3.33-two-clients.json"
    of_all = json.loads(path.read_text().partition("<vm> \n\n")[2])["client_stats"][2]
    assert of_all["jobname"] == model.ALL_CLIENTS
    found = {
        m.name: m.value
        for m in _fio_metrics.job_metrics(fio_json.parse_jobs(path.read_bytes())[0], 1)
    }
    for name in ("read", "write"):
        assert found[f"{name}.iops"] == pytest.approx(of_all[name]["iops"], rel=1e-6)
        assert found[f"{name}.bandwidth"] == pytest.approx(of_all[name]["bw_bytes"], rel=1e-6)


def test_half_a_histogram_is_none() -> None:
    binned = model.Latencies(10, 1.0, 0.0, 1.0, 1.0, {"1": 10}, percentiles={50.0: 1.0})
    plain = model.Latencies(10, 1.0, 0.0, 1.0, 1.0, percentiles={50.0: 1.0})
    merged = model.merge([binned, plain])
    assert merged is not None and not merged.bins and not merged.percentiles


def test_depth_is_the_one_fio_was_given() -> None:
    ((job,), _) = fio_json.parse_jobs((CASES / "fio" / "3.41-randread.json").read_bytes())
    reached = {m.name: m.value for m in _fio_metrics.job_metrics([job], depth=64)}["depth.reached"]
    assert job.depth == 4 and reached == pytest.approx(1.0, abs=1e-3)


def test_keys_that_differ_when_repeated_are_refused() -> None:
    text = (CASES / "fio" / "3.41-randread.json").read_text()
    runtime = json.loads(text)["jobs"][0]["read"]["runtime"]
    once = f'"runtime" : {runtime},'
    same = text.replace(once, once * 2, 1)
    assert parsed(same) == parsed(text)
    with pytest.raises(ParseError, match="twice"):
        parsed(text.replace(once, once + f'"runtime" : {runtime + 1},', 1))


def parsed(text: str) -> list[model.FioJob]:
    return list(fio_json.parse_jobs(text.encode())[0])


def test_a_long_document_is_read_in_pieces_to_the_same_end() -> None:
    """Over and over the same jobs: above a MiB the document is cut, below it is loaded whole."""
    data = json.loads((CASES / "fio" / "3.33-randrw.json").read_bytes())
    once = _fio_metrics.job_metrics(fio_json.parse_jobs(json.dumps(data).encode())[0], 1)
    data["jobs"] *= 64
    for indent in (None, 2):
        raw = json.dumps(data, indent=indent).encode()
        assert len(raw) > fio_load.WHOLE
        many = _fio_metrics.job_metrics(fio_json.parse_jobs(raw)[0], 1)
        for one, sum_of in zip(once, many, strict=True):
            assert one.name == sum_of.name and one.value is not None
            added = one.name.endswith((".ios", ".bytes", "iops", "bandwidth"))
            wanted = one.value * 64 if added else one.value
            # one less than the count is divided by
            assert sum_of.value == pytest.approx(wanted, rel=1e-3 if "stddev" in one.name else 1e-9)
        found = raw.find(b'"jobname"', len(raw) // 2)
        for broken in (raw[:found] + b"?" + raw[found:], raw[:found], raw[: len(raw) // 3] + b"}"):
            with pytest.raises(ParseError):
                list(fio_json.parse_jobs(broken)[0])


def test_the_line_of_a_job_in_a_long_document() -> None:
    data = json.loads((CASES / "fio" / "3.33-randrw.json").read_bytes())
    data["jobs"] *= 64
    text = json.dumps(data, indent=2)
    lines = [n for n, line in enumerate(text.split("\n"), 1) if '"jobname"' in line]
    assert [job.lines[""] + 1 for job in parsed(text)] == lines


def test_units_of_the_text():
    """By fio's num2str: powers of 1024 for bytes, of 1000 for counts and for what has a small k."""
    powers = enumerate(("", "K", "M", "G", "T", "P"))
    assert {unit: 1024**power for power, unit in powers} | {"k": 1000} == fio_text.BINARY
    powers = enumerate(("", "K", "M", "G", "T", "P"))
    assert {unit: 1000**power for power, unit in powers} | {"k": 1000} == fio_text.DECIMAL
    assert fio_text.PER_SECOND == {"nsec": 1e9, "usec": 1e6, "msec": 1e3, "sec": 1}


@pytest.mark.parametrize(
    "after", ["fio: terminating on signal 2", "note: both iodepth >= 1 and sync"]
)
def test_a_remark_behind_a_result_is_kept_apart(after):
    assert fio_load._slowly(f'{{"jobs": []}}\n{after}\n') == ({"jobs": []}, after)


@pytest.mark.parametrize("after", ["fio", "noted: x", "anything else"])
def test_any_other_text_behind_a_result_is_refused(after):
    with pytest.raises(ParseError, match="text after the result"):
        fio_load._slowly(f'{{"jobs": []}}\n{after}\n')


def test_latencies_of_a_job_too_slow_for_a_rate_count_as_one() -> None:
    """0 IOPS are printed of less than one a second. Of a text that does not say how many I/Os there were they stay."""
    text = (CASES.parent / "readers" / "fio" / "decimal-comma-1.59.txt").read_text()
    kept = [line for line in text.splitlines() if "issued" not in line]
    slow = [line.replace("iops=3896", "iops=0") for line in kept]
    ((job,), _) = fio_text.parse_jobs("\n".join(slow))
    assert (job.traffic["read"].iops, job.traffic["read"].clat.count) == (0, 1)
    assert job.traffic["write"].clat.count == pytest.approx(3782 * 2.005)
