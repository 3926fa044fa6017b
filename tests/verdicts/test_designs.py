"""In what order set-ups were built, and how far rebuilt equals are apart: what a verdict may say by that."""

from __future__ import annotations

from math import log, sqrt

import pytest

from benchlab.charts.queries import read_groups
from benchlab.findings import storing
from benchlab.runs.models import Attempt, Measurement
from benchlab.verdicts import builds, set_ups
from tests.charts import made
from tests.verdicts.bench import Bench, by_name

pytestmark = pytest.mark.django_db


def test_equals_built_one_after_the_other_are_never_called_so(bench, api):
    bench.measure(bench.build("a"), 1000)
    bench.measure(bench.build("b"), 1000)
    line = by_name(bench.answer(api))["b"]
    assert line["curve"]["verdict"] == "no large difference"
    assert "built one after the other" in line["curve"]["reason"]
    assert "ABBA" in line["curve"]["reason"]


def test_a_later_visit_of_few_repeats_is_no_turn(bench, api):
    """Four repeats of a build and one of another: the first one's luck is all but alone."""
    for name, repeats in (("a", (1, 2, 3, 4)), ("b", (1, 2, 3, 4)), ("b", (5,)), ("a", (5,))):
        bench.measure(bench.build(name), 1000 if name == "a" else 1300, repeats=repeats)
    assert by_name(bench.answer(api))["b"]["design"] == "one_after_other"


def test_two_visits_each_are_abba(bench, api):
    for name, repeats in (("a", (1, 2)), ("b", (1, 2, 3, 4)), ("a", (3, 4))):
        bench.measure(bench.build(name), 1000 if name == "a" else 1300, repeats=repeats)
    assert by_name(bench.answer(api))["b"]["design"] == "one_after_other"
    other = Bench.__new__(Bench)
    other.__dict__ = {**bench.__dict__, "campaign": made.campaign(bench.team, "In turns")}
    for name, repeats in (("a", (1, 2)), ("b", (1, 2)), ("b", (3, 4)), ("a", (3, 4))):
        other.measure(other.build(name), 1000 if name == "a" else 1300, repeats=repeats)
    line = by_name(other.answer(api))["b"]
    assert (line["design"], line["tau"]) == ("abba", 0.025)
    assert line["curve"]["verdict"] == "faster"


def test_a_retried_layout_is_no_second_visit(bench, api):
    """A A B B: built twice each, but not in turns."""
    for name, repeats in (("a", (1,)), ("a", (2, 3)), ("b", (1,)), ("b", (2, 3))):
        bench.measure(bench.build(name), 1000, repeats=repeats)
    assert by_name(bench.answer(api))["b"]["design"] == "one_after_other"


def test_what_one_layout_carries_is_interleaved_but_for_its_moments(bench, api, user):
    layout = bench.build("a")
    bench.measure(layout, 1000)
    attempts = bench.measure(layout, 1500, repeats=(4, 5, 6))
    for attempt in attempts:
        attempt.run.stage = "after-1"
        attempt.run.save()
    told = bench.answer(api)
    [line] = [line for line in told["lines"] if line["design"]]
    assert (line["design"], line["stage"]) == ("one_after_other", "after-1")
    one = read_groups(user, [bench.campaign.pk])[0]
    known = builds.read_builds([one])
    assert builds.design_of(one, one, known, builds.Lab()).order == "interleaved"


def test_what_is_imported_does_not_tell_its_order(bench, api):
    bench.measure(bench.build("a"), 400)
    bench.measure(bench.build("b"), 1000)
    bench.campaign.source = "imported"
    bench.campaign.save()
    assert by_name(bench.answer(api))["b"]["design"] == "untold"


def test_tau_is_learned_from_rebuilt_equals(bench, api):
    """Eleven builds of the same, each 10 % above the one before: ten pairs of ln 1.1, half of its square a build."""
    for build in range(11):
        bench.campaign = made.campaign(bench.team, f"Build {build}")
        for attempt in bench.measure(bench.build("a"), 1000 * 1.1**build, noise=0):
            depth = attempt.run.outstanding
            Attempt.objects.filter(pk=attempt.pk).update(fingerprint=f"equal at {depth}")
    found = builds.lab_of_teams([bench.team.pk]).luck
    assert found == pytest.approx([log(1.1) ** 2 / 2] * 10)
    bench.measure(bench.build("b"), 1000)
    line = by_name(bench.answer(api))["b"]
    assert line["tau_learned_from"] == 10
    one_build = (2 * 0.025**2 + 10 * log(1.1) ** 2 / 2) / 12
    assert line["tau"] == pytest.approx(sqrt(2 * one_build))


def test_one_run_each_is_held_against_what_the_lab_has_repeated(bench, api):
    """Three set-ups in five campaigns with 2 % noise: then single runs that are 2.5 times apart are decided."""
    bench.measure(bench.build("a"), 400, repeats=(1,))
    bench.measure(bench.build("b"), 1000, repeats=(1,))
    once = bench.campaign
    assert by_name(bench.answer(api))["b"]["curve"]["verdict"] == "not enough data"
    found = []
    for names in ("ccccc", "de"):
        for number, name in enumerate(names):
            bench.campaign = made.campaign(bench.team, f"Before {name} {number}")
            bench.measure(bench.build(name), 700, noise=0.02)
        bench.campaign = once
        found.append(by_name(bench.answer(api))["b"])
    one_set_up, line = found
    assert one_set_up["curve"]["verdict"] == "not enough data"
    assert line["curve"]["verdict"] == "faster" and line["curve"]["noise_assumed"]
    assert line["curve"]["low"] < 2.5 < line["curve"]["high"]
    assert "this lab's other runs" in line["curve"]["reason"]


def test_findings_between_set_ups_know_what_the_lab_differs_by(bench, monkeypatch):
    """Else a card says "not enough data" beside a finding that says "faster"."""
    for build in range(6):
        bench.campaign = made.campaign(bench.team, f"Build {build}")
        for attempt in bench.measure(bench.build("a"), 1000 * 1.15**build, noise=0):
            depth = attempt.run.outstanding
            Attempt.objects.filter(pk=attempt.pk).update(fingerprint=f"equal at {depth}")
    bench.measure(bench.build("b"), 1000)
    lines = []
    monkeypatch.setattr(storing, "store_line_findings", lambda of, load, found: lines.extend(found))
    set_ups.find_between_lines(bench.campaign)
    assert [line.rebuilt for line in lines] == [pytest.approx([log(1.15) ** 2 / 2] * 5)] * 2
    lines.clear()
    bench.campaign.source = "imported"
    bench.campaign.save()
    set_ups.find_between_lines(bench.campaign)
    assert [line.rebuilt for line in lines] == [(), ()], "somebody else's lab"


@pytest.mark.parametrize("name", ["one.fsync.ops", "bandwidth"])
def test_tau_is_learned_of_tools_that_count_no_iops(bench, name):
    for build in range(3):
        bench.campaign = made.campaign(bench.team, f"Build {build}")
        for attempt in bench.measure(bench.build("a"), 1000 * 1.1**build, noise=0):
            depth = attempt.run.outstanding
            Attempt.objects.filter(pk=attempt.pk).update(fingerprint=f"equal at {depth}")
    Measurement.objects.filter(name="bandwidth").delete()
    Measurement.objects.filter(name="iops").update(name=name)
    assert builds.lab_of_teams([bench.team.pk]).luck == pytest.approx([log(1.1) ** 2 / 2] * 2)
