"""A long run is drawn from strips, and its disks as a band: every number as by hand from the raw samples."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import reverse

from agents.contracts import Series, Unit
from benchlab.analysis.series import samples_per_bucket
from benchlab.charts.sampled_tracks import Span, read_rows
from benchlab.runs import artifact_figures, attempt_meta, conclusion
from benchlab.runs.models import Strip
from tests.charts import made

pytestmark = pytest.mark.django_db
SECONDS = 12_000
DISKS = [f"sd{chr(98 + n)}" for n in range(12)]
NAN = float("nan")
Raw = dict[tuple[str, str], list[float]]


def noise(seed: int = 5) -> tuple[list[float], Raw]:
    """(times, values): jumping rates with gaps, a disk that is lost, a burst of one second, waits of few requests."""
    dice = random.Random(seed)
    times = [at + dice.uniform(-0.02, 0.02) for at in range(1, SECONDS + 1)]
    found: Raw = {}
    for disk in DISKS:
        rates = [dice.choice((0.0, dice.expovariate(1 / 900))) for _ in times]
        for at in range(dice.randrange(500), SECONDS, 2700):  # a counter that was set back, say
            rates[at : at + 600] = [NAN] * min(600, SECONDS - at)
        found[disk, "write.iops"] = rates
        found[disk, "await"] = [dice.uniform(1e-4, 1e-2) if rate > 0 else NAN for rate in rates]
    found["sdf", "write.iops"][6_000:] = [NAN] * (SECONDS - 6_000)
    found["sdh", "write.iops"][2_345] = 1e6
    for metric in ("write.iops", "await"):
        found["dm-0", metric] = [dice.gauss(5000, 400) for _ in times]
    found["dm-0", "write.iops"][9_100] = 1.0
    return times, found


def stored(attempt: Any, times: list[float], raw: Raw) -> None:
    """As a worker stores it."""
    units = {"write.iops": Unit.OPS_PER_SECOND, "await": Unit.SECONDS}
    series = [
        ("diskstats", Series(device, metric, units[metric], tuple(times), tuple(values)))
        for (device, metric), values in raw.items()
    ]
    conclusion.replace_figures(attempt, artifact_figures.Figures([], series, []))


@pytest.fixture
def long(team) -> tuple[Any, list[float], Raw]:
    where, campaign = made.host(team, disks=12), made.campaign(team)
    [attempt, *_] = made.swept(
        campaign, where, made.topology(team, "stripe"), made.workload(team), depths=(4,), repeats=1
    )
    attempt.meta = {attempt_meta.DISKS: {"data": DISKS}}
    attempt.windows = made.WINDOWS
    attempt.save()
    times, raw = noise()
    stored(attempt, times, raw)
    return attempt, times, raw


def buckets(times: list[float], span: Span) -> Iterator[slice]:
    """By hand: whole buckets of equal many samples, counted from the first one of all."""
    first = max(0, sum(at < span.start for at in times) - 1)
    last = min(len(times), sum(at <= span.end for at in times) + 1)
    every = samples_per_bucket(last - first, span.pixels)
    for at in range(first // every * every, last, every):
        yield slice(at, min(at + every, len(times)))


def known(values: list[float]) -> list[float]:
    return [one for one in values if not math.isnan(one)]


def same(found: list[float | None], wanted: list[float]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == math.isnan(other)
        assert one is None or one == pytest.approx(other, rel=5.1e-5, abs=1e-12)


def figure(web: Any, attempt: Any, **query: object) -> dict[str, Any]:
    answer = web.get(reverse("attempt-device-figure", args=[attempt.pk]), query)
    assert answer.status_code == 200
    found: dict[str, Any] = json.loads(answer.content)
    return found


def query_of(span: Span) -> dict[str, object]:
    return {"from": span.start, "to": span.end, "width": span.pixels}


def panel(made: dict[str, Any], words: str, axis: str = "x") -> dict[str, Any]:
    [one] = [t for t in made["data"] if t["name"].startswith(words) and t.get("xaxis", "x") == axis]
    return one


# By strips of 64, of 8, by sample; thinned from samples; beyond the end.
SPANS = [
    Span(pixels=100), Span(pixels=499), Span(1_000.5, 8_500.0), Span(2_300.5, 2_400.0, 700), Span(11_990.0, 1e9),
]  # fmt: skip


def test_a_band_is_what_the_raw_samples_give(web, long):
    attempt, times, raw = long
    for span in SPANS:
        band_by_hand(figure(web, attempt, **query_of(span)), span, times, raw)


def band_by_hand(drawn: dict[str, Any], span: Span, times: list[float], raw: Raw) -> None:
    parts = list(buckets(times, span))
    for axis, metric in (("x", "write.iops"), ("x2", "await")):
        each = [[known(raw[disk, metric][part]) for disk in DISKS] for part in parts]
        every = [[value for one in of for value in one] for of in each]
        means = [[math.fsum(one) / len(one) for one in of if one] for of in each]
        same(panel(drawn, "smallest of 12", axis)["y"], [min(one, default=NAN) for one in every])
        same(panel(drawn, "largest of 12", axis)["y"], [max(one, default=NAN) for one in every])
        median = panel(drawn, "12 disks (imported, data): median", axis)
        same(median["y"], [statistics.median(one) if one else NAN for one in means])
        same(median["x"], [(times[p.start] + times[p.stop - 1]) / 2 for p in parts])
        for name, most, part in zip(
            panel(drawn, "largest of 12", axis)["text"], every, parts, strict=True
        ):
            assert not most or max(most) in raw[name, metric][part]


def test_the_volume_keeps_the_least_and_the_most_of_each_pixel(web, long):
    attempt, times, raw = long
    for span in SPANS:
        line = panel(figure(web, attempt, **query_of(span)), "bl1-data")
        wanted = []
        for part in buckets(times, span):
            values = raw["dm-0", "write.iops"][part]
            ends = sorted({values.index(min(values)), values.index(max(values))})
            wanted += [(times[part][at], values[at]) for at in ends]
        same(line["x"], [at for at, _ in wanted])
        same(line["y"], [value for _, value in wanted])


def test_a_peak_of_a_second_is_seen_in_the_whole(web, long):
    attempt, _, _ = long
    whole = figure(web, attempt)
    assert max(one or 0 for one in panel(whole, "largest of 12")["y"]) == 1e6
    at = panel(whole, "largest of 12")["y"].index(1e6)
    assert panel(whole, "largest of 12")["text"][at] == "sdh"
    assert min(panel(whole, "bl1-data")["y"]) == 1.0


def test_a_run_without_strips_is_drawn_the_same(web, long):
    attempt, _, _ = long
    asked = [query_of(span) | {"members": members} for span in SPANS for members in ("", "1")]
    fast = [figure(web, attempt, **query) for query in asked]
    assert Strip.objects.filter(attempt=attempt).exists()
    Strip.objects.all().delete()
    assert [figure(web, attempt, **query) for query in asked] == fast


def test_what_is_parsed_again_has_its_strips_anew(long):
    attempt, times, raw = long
    raw["sdb", "write.iops"] = [7.0] * SECONDS
    stored(attempt, times, raw)
    [rows] = read_rows(attempt, ["write.iops"], Span())
    assert rows.most[rows.devices.index("sdb")] == 7.0
    conclusion.replace_figures(attempt, artifact_figures.Figures([], [], []))
    assert not attempt.strips.exists() and not read_rows(attempt, ["write.iops"], Span())


def test_a_short_run_has_none(long):
    attempt, times, raw = long
    stored(attempt, times[:600], {key: values[:600] for key, values in raw.items()})
    assert not attempt.strips.exists()
    [rows] = read_rows(attempt, ["await"], Span())
    assert rows.buckets.every == 1 and len(rows.buckets.times) == 600


def test_devices_of_two_clocks_are_drawn_each_for_itself(web, long):
    attempt, times, raw = long
    shift = {disk: ord(disk[-1]) % 2 for disk, _ in raw}  # half of them miss the first sample
    series = [
        ("diskstats", Series(d, m, Unit.OPS_PER_SECOND, tuple(times[shift[d] :]), tuple(values[shift[d] :])))
        for (d, m), values in raw.items()
        if m == "write.iops"
    ]  # fmt: skip
    conclusion.replace_figures(attempt, artifact_figures.Figures([], series, []))
    assert attempt.strips.filter(every=0).count() == 2
    names = {trace["name"].strip() for trace in figure(web, attempt)["data"]}
    assert len(names) == 13 and "└ sdb (INTEL SSDSC2BB48)" in names


def test_few_disks_are_told_apart(web, long):
    attempt, _, _ = long
    attempt.meta = {attempt_meta.DISKS: {"data": DISKS[:4], "cache": DISKS[4:]}}
    attempt.save()
    names = {trace["name"].strip() for trace in figure(web, attempt)["data"]}
    assert {f"└ {one} (INTEL SSDSC2BB48)" for one in DISKS[:4]} <= names
    assert "8 disks (imported, cache): median" in names and len(names) == 1 + 4 + 4
