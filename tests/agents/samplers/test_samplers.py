"""Every case folder of every sampler: what the host wrote, and the series it must become."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from math import isnan
from pathlib import Path

import pytest

from agents.contracts import Frame, ParseError, Watch
from agents.drivers import registry
from agents.jobs import job
from agents.samplers import _frames, arcstat
from tests.each_case import check_each

CASES = Path(__file__).parents[2] / "cases" / "samplers"
FOUND = sorted(CASES.glob("*/*.txt"))


def ids(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("kind", registry.all_samplers())
def test_every_sampler_has_cases(kind):
    assert list((CASES / kind).glob("*.txt")), f"add tests/cases/samplers/{kind}/NAME.txt"


@pytest.mark.parametrize("kind", registry.all_samplers())
def test_case(kind):
    check_each(check_series, sorted((CASES / kind).glob("*.txt")), ids)


def check_series(path):
    expected = json.loads(path.with_suffix(".expected.json").read_text())
    sampler = registry.all_samplers()[path.parent.name]
    frames = job.frames(path.read_bytes())
    if error := expected.pop("error", None):
        with pytest.raises(ParseError) as caught:
            sampler.frames_to_series(frames)
        assert error in str(caught.value)
        return
    times = expected.pop("times")
    found: dict[str, dict[str, list[float | None]]] = {}
    for one in sampler.frames_to_series(frames):
        wanted = expected.get(one.device, {}).get(f"{one.metric} {one.unit}")
        own = isinstance(wanted, dict)  # {"times", "values"}: not at every frame
        assert one.times == pytest.approx(wanted["times"] if own else times)
        values = [None if isnan(value) else value for value in one.values]
        found.setdefault(one.device, {})[f"{one.metric} {one.unit}"] = values
    assert found.keys() == expected.keys()
    for device, metrics in expected.items():
        assert found[device].keys() == metrics.keys(), device
        for metric, wanted in metrics.items():
            values = wanted["values"] if isinstance(wanted, dict) else wanted
            assert found[device][metric] == [
                v if v is None else pytest.approx(v) for v in values
            ], f"{device} {metric}"


def test_nothing_is_ever_negative():
    for path in FOUND:
        if "error" in path.with_suffix(".expected.json").read_text():
            continue
        sampler = registry.all_samplers()[path.parent.name]
        series = sampler.frames_to_series(job.frames(path.read_bytes()))
        assert not [v for one in series for v in one.values if v < 0]


def test_a_frame_from_before_the_others_is_torn():
    """A monotonic clock never goes back: damage does, and must make no rate of it."""
    check_each(check_torn, FOUND, ids)


def check_torn(path):
    if "error" in path.with_suffix(".expected.json").read_text():
        return
    frames = job.frames(path.read_bytes())
    torn = [
        *frames[:1],
        *(replace(frame, at=frames[0].at - 99) for frame in frames[:1]),
        *frames[1:],
    ]
    for one in registry.all_samplers()[path.parent.name].frames_to_series(torn):
        assert all(a < b for a, b in pairwise(one.times)), one
        assert not [v for v in one.values if v < 0], one


def test_a_line_has_the_time_before_it_and_its_number():
    """To the nanosecond, from the run's first frame on."""
    watch = Watch(("x",), lasting=True)
    texts = ("5250000000 a b\n6000000001 c", "7500000000 d")
    frames = [Frame(float(at), {watch.file_key: text}) for at, text in enumerate(texts)]
    assert _frames.stamped_lines(frames, watch) == [
        _frames.Line(5.25, "a b", 1),
        _frames.Line(6.000000001, "c", 2),
        _frames.Line(7.5, "d", 3),
    ]
    with pytest.raises(ParseError, match="line 2"):
        _frames.stamped_lines([Frame(0.0, {watch.file_key: "5 a\nb c"})], watch)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("hits 4 1\nmisses 4 x\nsize 4 1", "not a line of arcstats (line 2"),
        ("hits 4 1\nmisses 4 1\nsize 4 1 1", "not a line of arcstats (line 3"),
        ("hits 4 1\nmisses 4 1", "hits, misses or size is missing (line 1"),
    ],
)
def test_a_foreign_line_of_arcstats_is_named_by_its_number(text, error):
    path = arcstat.FILES[0]
    good = Frame(0.0, {path: "hits 4 1\nmisses 4 1\nsize 4 1"})
    with pytest.raises(ParseError) as caught:
        arcstat.frames_to_series([good, Frame(1.0, {path: text})])
    assert error in str(caught.value)
