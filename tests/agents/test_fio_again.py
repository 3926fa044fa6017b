"""One run of fio in several formats is kept once; runs that only look alike are kept all."""

from __future__ import annotations

import pytest

from agents.contracts import Metric, Unit
from agents.readers import _fio
from agents.texts.parsed_result import ParsedResult


def run(title: str = "job: randread", runtime: float = 10.0, **iops: float) -> ParsedResult:
    rates = iops or {"read": 100.0}
    metrics = [Metric(f"{way}.iops", value, Unit.OPS_PER_SECOND) for way, value in rates.items()]
    return ParsedResult(
        "fio", 1, 9, title, metrics=(Metric("runtime", runtime, Unit.SECONDS), *metrics)
    )


@pytest.mark.parametrize(
    "other",
    [
        run(),
        run("job: randread, terse"),
        run(runtime=10.0004),  # the same millisecond
        run(read=101.9),  # rates are cut to whole ones
    ],
)
def test_the_same_run_is_kept_once(other):
    [kept] = _fio.once([run()], [other])
    assert kept.notes == (_fio.OTHER_FORMAT,) and kept.also == ((1, 9),)


@pytest.mark.parametrize(
    "other",
    [
        run("another: randread"),
        run(runtime=10.001),
        run(read=102.0),
        run(write=100.0),
        run(read=100.0, write=100.0),
        ParsedResult(
            "fio", 1, 9, "job: randread", metrics=(Metric("runtime", 10.0, Unit.SECONDS),)
        ),
    ],
)
def test_another_run_is_kept_beside_it(other):
    assert _fio.once([run()], [other]) == [run(), other]
