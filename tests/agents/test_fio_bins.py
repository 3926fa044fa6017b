"""The histograms that are kept of fio's bins: few, exact at their edges, and of every I/O."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.contracts import Histogram
from agents.outputs import fio_log
from agents.outputs.fio_model import Latencies
from agents.readers import fio as reader
from agents.tools import _fio_metrics, fio
from tests.agents.test_fio_numbers import REAL
from tests.agents.test_tools import CASES

NOISY = CASES / "fio" / "3.33-noisy-randrw.json"
NS = 1e9
Bins = dict[float, int]


def kept(path: Path) -> list[Histogram]:
    return fio.parse_histograms({fio.RESULT: path.read_bytes()}, fio.Options())


def printed(path: Path, direction: str, kind: str = "clat_ns") -> dict[str, Any]:
    """Figures of fio itself for the one job of a run."""
    (job,) = json.loads(path.read_text())["jobs"]
    found: dict[str, Any] = job[direction][kind]
    return found


def rank_of(one: Histogram, rank: float) -> tuple[float, float]:
    """The bin in which so many percent are reached, by counting."""
    reached = list(accumulate(one.counts))
    at = next(at for at, below in enumerate(reached) if below >= rank / 100 * reached[-1])
    return one.lows[at], one.highs[at]


# Counted in the printed bins by a script of its own: the first at which so many of the samples are reached, in ns.
BY_HAND = {
    "read": {50: 94720, 99: 2899968, 99.9: 6782976},
    "write": {50: 148480, 99: 5210112, 99.9: 9895936},
}


@pytest.mark.parametrize("direction", BY_HAND)
def test_percentiles_of_a_noisy_run_are_those_of_fio_and_those_by_hand(direction: str) -> None:
    told = printed(NOISY, direction)
    (one,) = (one for one in kept(NOISY) if one.name == f"{direction}.clat")
    for rank, ns in BY_HAND[direction].items():
        assert told["percentile"][f"{rank:.6f}"] == ns
        low, high = rank_of(one, rank)
        assert low <= ns / NS < high <= low * 1.1


def test_every_sample_of_a_noisy_run_is_counted_once() -> None:
    for one in kept(NOISY):
        told = printed(NOISY, one.name.split(".", maxsplit=1)[0])
        assert sum(one.counts) == told["N"] == sum(told["bins"].values())
        assert one.lows[0] <= told["min"] / NS and told["max"] / NS < one.highs[-1]


@pytest.mark.parametrize("path", REAL)
def test_histograms_of_every_case(path: Path) -> None:
    """Each is of at most so many bins, none of them empty or over another, and has the percentiles that fio prints."""
    raw = path.read_bytes()
    found = kept(path)
    assert found
    figures = {
        (m.name, *m.labels.values()): m.value for m in fio.parse({fio.RESULT: raw}, fio.Options())
    }
    for one in found:
        assert 0 < len(one.counts) <= _fio_metrics.MOST and min(one.counts) > 0
        assert all(low < high for low, high in zip(one.lows, one.highs, strict=True))
        assert all(high <= low for high, low in zip(one.highs, one.lows[1:], strict=False))
        for rank in (50, 90, 99, 99.9):
            low, high = rank_of(one, rank)
            figure = figures.get((f"{one.name}.p{rank}", *one.labels.values()))
            assert figure is None or low <= figure < high, (one.name, rank)


@pytest.mark.parametrize("path", REAL)
def test_a_reader_finds_the_same(path: Path) -> None:
    (found,) = reader.find_results(path.read_text(errors="replace"), path.name)
    assert [*found.histograms] == kept(path)


@pytest.mark.parametrize(
    "name", ["3.16-text.txt", "1.59-text-randwrite-raw.txt", "3.16-terse-v3.txt", "3.1-fdatasync.json"]
)  # fmt: skip
def test_what_has_no_bins_has_no_histogram(name: str) -> None:
    path = CASES / "fio" / name
    assert kept(path) == []
    assert fio.parse({"stdout": path.read_bytes()}, fio.Options())


def test_json_without_plus_has_none() -> None:
    """fio prints `bins` with json+ only; the figures of what it prints else stand."""
    data = json.loads(NOISY.read_text())
    for direction in BY_HAND:
        del data["jobs"][0][direction]["clat_ns"]["bins"]
    raw = {"stdout": json.dumps(data).encode()}
    assert fio.parse_histograms(raw, fio.Options()) == []
    assert {m.name for m in fio.parse(raw, fio.Options())} >= {"read.clat.p99", "write.clat.p50"}


def test_earlier_bins_are_microseconds() -> None:
    """2.12 names them by their numbers: 0 to 127 are a microsecond each."""
    found = kept(CASES / "fio" / "2.12-handwritten-bin-numbers.json")
    data = json.loads((CASES / "fio" / "2.12-handwritten-bin-numbers.json").read_text())
    for one in found:
        direction, kind = one.name.split(".")
        bins = data["jobs"][0][direction][kind]["bins"]
        hits = {int(at): count for at, count in bins.items() if at.isdecimal() and count}
        assert sum(one.counts) == sum(hits.values())
        first = min(hits)
        assert one.lows[0] <= fio_log.middle(first) / 1e6 < one.highs[0]
    assert found


def test_groups_are_told_apart() -> None:
    labels = [one.labels for one in kept(CASES / "fio" / "3.33-stonewall.json")]
    assert labels == [{"group": "0"}, {"group": "1"}]


def test_what_took_longer_than_fio_has_bins_for_lies_in_the_last() -> None:
    last = fio_log.middle((29 << 6) - 1)
    found = _fio_metrics.histogram(
        "read.clat", Latencies(1, 60.0, 0.0, 60.0, 60.0, {str(int(last)): 1}, NS)
    )
    assert found.lows[0] < 60.0 < found.highs[0]


@given(st.dictionaries(st.integers(0, (29 << 6) - 1), st.integers(1, 10**9), min_size=1))
def test_no_bin_of_fios_is_split(hits: dict[int, int]) -> None:
    """So the share of the I/Os below an edge is fio's own, whatever was merged."""
    bins = {str(int(fio_log.middle(at))): count for at, count in hits.items()}
    one = _fio_metrics.histogram(
        "clat", Latencies(sum(hits.values()), 0.0, 0.0, 0.0, 0.0, bins, NS)
    )
    assert sum(one.counts) == sum(hits.values()) and len(one.counts) <= _fio_metrics.MOST
    below = dict(zip(one.highs, accumulate(one.counts), strict=True))
    for edge, count in below.items():
        assert count == sum(c for at, c in hits.items() if fio_log.middle(at) / NS < edge)


@pytest.mark.parametrize("many", _fio_metrics.PER_DOUBLING)
def test_merged_bins_are_nearly_equally_wide(many: int) -> None:
    """On a logarithmic axis; of the finest by as much as one of fio's."""
    cuts = _fio_metrics._cuts(many)
    parts = [(64 + b) / (64 + a) for a, b in pairwise(cuts)]
    assert max(parts) / min(parts) < 1.02 + 1 / 64
