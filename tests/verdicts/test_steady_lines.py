"""Lines of which some runs were not steady: compared by what may be compared, and told what may not."""

from __future__ import annotations

import pytest

from benchlab.analysis.steady import Course, State
from tests.charts import made
from tests.verdicts.bench import by_name

pytestmark = pytest.mark.django_db

# The rate fell to a third at 40 s of 120 s: the mean is 5/3 of what it does since.
FELL = Course(State.STEP, "op/s", 120, 5000, edge_s=40, first=9000, second=3000, last_third=3000)
STALLS = Course(State.STALLS, "op/s", 120, 5000, share=0.1, spells=12, last_third=5000)
SLOWER_LATENCY = Course(State.TREND, "s", 120, 0.01, change=0.5, last_third=0.012)


def mark(attempts, course: Course, depths=(1, 8, 16), repeats=(1, 2, 3)) -> None:
    for attempt in attempts:
        if attempt.run.outstanding in depths and attempt.run.repeat in repeats:
            attempt.course = course.to_json()
            attempt.save()


def compared(bench, api):
    told = bench.answer(api)
    return told, by_name(told)["b"]


@pytest.fixture
def lines(bench):
    """Runs of a and of b, which does 2.5 times as much."""
    return bench.measure(bench.build("a"), 400), bench.measure(bench.build("b"), 1000)


def test_a_steady_line_is_not_compared_with_one_that_is_not(lines, bench, api, web):
    mark(lines[1], FELL)
    told, b = compared(bench, api)
    assert b["curve"]["verdict"] == "not enough data"
    assert b["curve"]["reason"] == "not comparable: b is not steady"
    assert {point["verdict"] for point in b["points"]} == {"not enough data"}
    assert told["says"][0].startswith("Not comparable: b is not steady; ")
    assert {line["place"] for line in told["lines"]} == {1}
    assert web.get(f"/campaigns/{bench.campaign.pk}/").status_code == 200


def test_two_that_came_to_rest_are_compared_by_their_last_third(lines, bench, api):
    mark(lines[0], FELL)
    mark(lines[1], Course(State.STEP, "op/s", 120, 5000, edge_s=40, last_third=4500))
    _, b = compared(bench, api)
    assert b["curve"]["verdict"] == "faster"
    assert b["curve"]["ratio"] == pytest.approx(2.5 * 4500 / 3000, rel=0.03)
    assert (
        "the last third of each run is compared at 1, 8 and 16 outstanding" in b["curve"]["reason"]
    )


def test_two_of_which_one_still_changes_are_not_compared(lines, bench, api):
    mark(lines[0], FELL)
    mark(
        lines[1],
        Course(State.TREND, "op/s", 120, 5000, change=-0.5, last_third=3000, last_slope=-0.2),
    )
    assert compared(bench, api)[1]["curve"]["reason"] == "not comparable: a and b are not steady"


def test_only_the_depths_that_are_unlike_are_left_out(lines, bench, api):
    mark(lines[1], FELL, depths=(16,))
    _, b = compared(bench, api)
    assert b["curve"]["verdict"] == "faster" and [
        point["outstanding"] for point in b["points"]
    ] == [1, 8]
    assert "at 16 outstanding not comparable: b is not steady" in b["curve"]["reason"]


@pytest.mark.parametrize(
    ("course", "repeats"),
    [
        # One run of three is no state of the set-up; its mean counts, so that nothing is called equal for lack of it.
        (FELL, (2,)),
        # What a user gets of a disk that stalls is its mean.
        (STALLS, (1, 2, 3)),
        # The rate was steady.
        (SLOWER_LATENCY, (1, 2, 3)),
    ],
)
def test_means_are_compared_where_they_say_what_a_user_gets(lines, bench, api, course, repeats):
    before = compared(bench, api)[1]["curve"]
    mark(lines[1], course, repeats=repeats)
    assert compared(bench, api)[1]["curve"] == before


def test_every_test_of_a_tool_heeds_what_its_answer_heeds(bench, api):
    """The answer's own rate has one verdict, and no rate of a line that fell is compared."""
    load = made.workload(bench.team, "fsync", tool="pg_test_fsync")
    lines = [
        bench.measure(bench.build(name), top, depths=(None,), load=load)
        for name, top in (("a", 400), ("b", 1000))
    ]
    mark(lines[1], FELL, depths=(None,))
    told, b = compared(bench, api)
    verdicts = {test["metric"]: test["verdict"] for test in b["tests"]}
    assert told["metric"] in verdicts and len(verdicts) > 1
    assert set(verdicts.values()) == {"not enough data"} == {b["curve"]["verdict"]}
