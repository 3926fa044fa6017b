"""The headline of a sweep: from stored runs, through REST and the page, and recomputed by hand."""

from __future__ import annotations

import re
from math import exp, log
from statistics import mean
from typing import Any

import pytest
from django.core.exceptions import BadRequest
from django.http import QueryDict

from benchlab.analysis.designs import Order, design
from benchlab.analysis.formats import ratio_number, times_text
from benchlab.analysis.headline import Terms, compare_under
from benchlab.analysis.verdicts import freeze_sweep
from benchlab.runs.models import Measurement
from benchlab.topologies.models import Topology
from benchlab.verdicts.headlines import requested_terms
from tests.charts import made
from tests.verdicts.bench import by_name, texts

DEPTHS = (1, 2, 4, 8, 16, 32)
CEILING = 5060


class Disks:
    """Layouts of 1, 2 and 4 disks; each disk does 1.7 k IOPS at one outstanding I/O, and 5.06 k at most."""

    def __init__(self, bench):
        self.bench = bench
        self.attempts = {}

    def measure(self, count, repeats=(1, 2, 3)):
        layout = self.bench.build(f"{count} disk{'s' * (count > 1)}")
        stack: list[dict[str, Any]] = [
            {
                "kind": "lvm" if count > 1 else "raw",
                "options": {},
                "devices": [{"use": "data", "role": "hdd", "count": count}],
            }
        ]
        Topology.objects.filter(pk=layout.topology_id).update(stack=stack)
        points = [
            made.Point(
                depth,
                repeat,
                min(1683 * depth, CEILING * count) * self.bench.dice.gauss(1, 0.01),
                "",
            )
            for repeat in repeats
            for depth in DEPTHS
        ]
        self.attempts[count] = made.finish_all(self.bench.campaign, layout, self.bench.load, points)


@pytest.fixture
def disks(bench):
    return Disks(bench)


pytestmark = pytest.mark.django_db


def statements(line):
    return {statement["condition"]: statement for statement in line["statements"]}


def test_peaks_of_two_and_four_disks_are_the_headline(disks, bench, api, web):
    for count in (1, 2, 4):
        disks.measure(count)
    lines = by_name(bench.answer(api))
    for count in (2, 4):
        line = lines[f"{count} disks"]
        saturated = statements(line)["saturation"]
        assert saturated["headline"] and saturated["ratio"] == pytest.approx(count, rel=0.02)
        assert saturated["low"] < count < saturated["high"]
        assert line["efficiency"] == pytest.approx(1, rel=0.02)
        assert saturated["says"].startswith(
            f"At saturation {count} disks does {times_text(saturated['ratio'])} the IOPS of 1 disk ("
        )
    assert statements(lines["1 disk"]) == {}
    text = web.get(f"/campaigns/{bench.campaign.pk}/").content.decode()
    assert saturated["says"].removesuffix(".") in text
    shown = ratio_number(saturated["ratio"])
    assert f"4 disks: {shown} times one disk, {100 * line['efficiency']:.0f} % efficiency" in text
    assert f"At saturation 4 disks does {shown} times the IOPS of 1 disk" in texts(web.get("/"))
    assert f">{shown}× <small>the IOPS of 1 disk: 4 disks, at saturation, 95 % interval" in text


def test_rest_says_what_the_engine_says(disks, bench, api):
    for count in (1, 4):
        disks.measure(count)
    line = by_name(bench.answer(api, depth=8, max_latency="1.5ms"))["4 disks"]
    sweeps = tuple(freeze_sweep(_sweep(disks.attempts[count], "iops")) for count in (1, 4))
    order = design(Order.ONE_AFTER_OTHER)
    assert line["tau"] == order.tau
    for statement, inner in zip(
        line["statements"],
        compare_under(sweeps, None, order, Terms(8, 0.0015)),
        strict=True,
    ):
        got = [statement[name] for name in ("condition", "ratio", "low", "high", "missing")]
        assert got == [inner.condition, inner.ratio, inner.low, inner.high, inner.missing]
    assert [s["headline"] for s in line["statements"]] == [False, False, True]


def _sweep(attempts, name):
    sweep: dict[int, dict[int, float]] = {}
    for attempt in attempts:
        value = Measurement.objects.get(attempt=attempt, name=name, labels={}).value
        sweep.setdefault(attempt.run.outstanding, {})[attempt.run.repeat] = value
    return sweep


def test_a_plateau_by_hand(disks, bench, api):
    """From the runs' own figures: the mean of ln at the depths within 5 %, of 4 disks over that of one."""
    for count in (1, 4):
        disks.measure(count)
    plateaus = {}
    for count, attempts in disks.attempts.items():
        means = [mean(map(log, cell.values())) for cell in _sweep(attempts, "iops").values()]
        plateaus[count] = mean(value for value in means if value > max(means) - log(1.05))
    line = by_name(bench.answer(api))["4 disks"]
    ratio = statements(line)["saturation"]["ratio"]
    assert ratio == pytest.approx(exp(plateaus[4] - plateaus[1]), rel=5e-3)


def test_a_reader_asks_for_a_depth_and_the_address_keeps_it(disks, bench, web):
    for count in (1, 4):
        disks.measure(count)
    url = f"/campaigns/{bench.campaign.pk}/"
    page = web.get(url, {"depth": 2})
    text = page.content.decode()
    assert '<option value="2" selected>2 outstanding</option>' in text
    assert re.search(r"At 2 outstanding 4 disks does (1.0|0.9)\d* times the IOPS", texts(page))
    assert ", at 2 outstanding, 95 % interval" in text
    assert '<input type="hidden" name="depth" value="2">' in text
    deep = texts(web.get(url, {"max_latency": "1.5 ms"}))
    assert re.search(
        r"At 1.5 ms mean latency 4 disks does (4.0|3.9|4.1) times the IOPS of 1 disk", deep
    )
    tail = texts(web.get(url, {"max_latency": "1.5 ms", "latency_of": "p99"}))
    assert "1.5 ms p99 latency" in tail
    assert web.get(url, {"depth": "x"}).status_code == 400


def test_what_still_rises_is_compared_at_the_deepest_load(bench, api):
    bench.measure(bench.build("slow"), 400)
    bench.measure(bench.build("fast"), 1000)
    line = by_name(bench.answer(api))["fast"]
    told = statements(line)
    assert told["saturation"]["missing"] and told["saturation"]["ratio"] is None
    assert "not reached, slow and fast still gained at 16" in told["saturation"]["says"]
    assert told["load"]["headline"] and told["load"]["at"] == 16
    assert line["efficiency"] is None


def test_latencies_are_compared_at_a_load_only(disks, bench, api):
    for count in (1, 4):
        disks.measure(count)
    line = by_name(bench.answer(api, metric="lat.mean", depth=32))["4 disks"]
    [statement] = line["statements"]
    assert statement["ratio"] == pytest.approx(0.25, rel=0.03)
    assert "the latency of 4 disks is 0.25 times that of 1 disk" in statement["says"]


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("", (None, None, "mean")),
        ("depth=16", (16, None, "mean")),
        ("max_latency=5ms&latency_of=p99", (None, 0.005, "p99")),
        ("max_latency=0.25", (None, 0.25, "mean")),
        ("max_latency=80%20%C2%B5s", (None, 8e-5, "mean")),
    ],
)
def test_terms_are_read_from_the_address(query, terms):
    found = requested_terms(QueryDict(query))
    assert (found.depth, found.seconds, found.statistic) == (
        terms[0],
        terms[1] and pytest.approx(terms[1]),
        terms[2],
    )


@pytest.mark.parametrize(
    "query",
    [
        "depth=0",
        "depth=x",
        "max_latency=soon",
        "max_latency=0",
        "max_latency=-1ms",
        "latency_of=p98",
    ],
)
def test_terms_that_nobody_understands_are_refused(query):
    with pytest.raises(BadRequest, match=query.partition("=")[0]):
        requested_terms(QueryDict(query))
