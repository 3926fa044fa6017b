"""The history of a set-up: which runs belong to it, what page, figure and API say; others see none of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import plotly.graph_objects as go
import pytest
from django.urls import reverse

from benchlab.charts import history
from benchlab.charts.history import read_history
from benchlab.hosts.models import FactSnapshot
from benchlab.runs.models import Attempt
from benchlab.runs.states import Outcome
from tests.api.conftest import client_of
from tests.charts import made

BEGIN = datetime(2026, 1, 1, 3, tzinfo=UTC)
BEFORE = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.0, 101.0, 99.0, 100.0, 101.0, 99.0]
AFTER = [80.0, 81.0, 79.0, 80.0, 80.0, 82.0, 79.0, 80.0, 81.0]
DIGEST = "a" * 64


def nightly(lab, values, *, first=0, digest=DIGEST, facts=None, builds_of=3):
    """A campaign a night, each with a layout of its own and as many repeats as `builds_of`."""
    attempts = []
    for night in range(0, len(values), builds_of):
        campaign = made.campaign(lab.team, f"Night {first + night}")
        layout = made.done_layout(campaign, lab.host, lab.stack)
        for repeat, value in enumerate(values[night : night + builds_of], 1):
            attempt = made.finished(campaign, layout, lab.load, 4, repeat, value)
            at = BEGIN + timedelta(days=first + night, minutes=repeat)
            Attempt.objects.filter(pk=attempt.pk).update(
                fingerprint=digest, started_at=at, facts=facts or layout.facts_ready
            )
            attempts.append(attempt)
    return attempts


@pytest.fixture
def bench(team, user):
    """One host, one stack, one workload, without any run yet."""
    return SimpleNamespace(
        team=team,
        user=user,
        host=made.host(team),
        stack=made.topology(team, "LVM 64 KiB"),
        load=made.workload(team),
    )


@pytest.fixture
def slower(bench):
    """A run and a build a night; from the thirteenth on a fifth slower."""
    return nightly(bench, [*BEFORE, *AFTER], builds_of=1)


def page_of(web, attempt, **query):
    return web.get(reverse("run-history", args=[attempt.run_id]), query)


def test_the_page_tells_a_change_with_its_run(web, slower):
    answer = page_of(web, slower[0])
    text = " ".join(answer.content.decode().split())
    found = answer.context["history"]
    assert [one.run for one in found.runs] == [one.run_id for one in slower]
    (step,) = found.history_changes
    assert (step.change.at, step.change_text, step.runs_since) == (12, "20 % lower", 9)
    assert step.change.confirmed
    assert f'Changed:</strong> 20 % lower from <a href="/runs/{slower[12].run_id}/">' in text
    assert "100 IOPS before, 80 IOPS since (medians; 9 runs)." in text
    assert "Night 20" in text


def test_a_young_change_is_possible(web, bench):
    attempts = nightly(bench, [*BEFORE, *AFTER[:5]])
    answer = page_of(web, attempts[0])
    text = " ".join(answer.content.decode().split())
    assert "Possibly changed:" in text and "At least 1 more run will tell." in text
    drawn = web.get(answer.context["figure_url"]).json()
    (line,) = [trace for trace in drawn["data"] if trace["name"] in NAMES]
    assert (line["name"], line["line"]["dash"]) == (history.POSSIBLE_NAME, "dot")
    assert line["text"][1] == "possible −20 %"


NAMES = (history.CONFIRMED_NAME, history.POSSIBLE_NAME, history.DRIFT_NAME)


def test_a_drift_is_told_as_a_drift(web, bench, user):
    """40 nights, each half a percent slower than the one before."""
    values = [1000 * 0.995**night * (1 + 0.01 * (-1) ** night) for night in range(40)]
    attempts = nightly(bench, values, builds_of=1)
    answer = page_of(web, attempts[0])
    text = " ".join(answer.content.decode().split())
    first = attempts[0].run_id
    assert f'Drifts:</strong> 18 % lower over 40 runs, from <a href="/runs/{first}/">' in text
    assert "hanged:</strong>" not in text
    drawn = web.get(answer.context["figure_url"]).json()
    (line,) = [trace for trace in drawn["data"] if trace["name"] in NAMES]
    assert (line["name"], line["line"]["dash"], line["text"][-1]) == (
        "drift",
        "dash",
        "drifts −18 %",
    )
    (levels,) = [trace for trace in drawn["data"] if trace["name"] == history.LEVEL_NAME]
    assert levels["y"] == []
    drift = client_of(user).get("/api/history/", {"run": first}).json()["drift"]
    assert (drift["at"], drift["run"], drift["runs"], drift["verdict"]) == (0, first, 40, "drifts")
    assert drift["says"] == "18 % lower over 40 runs"
    assert (drift["before"], drift["after"]) == pytest.approx((1000, 822), rel=0.01)


def test_the_figure_draws_runs_levels_and_the_change(web, slower):
    answer = page_of(web, slower[0])
    drawn = web.get(answer.context["figure_url"]).json()
    go.Figure(drawn)
    traces = {trace["name"]: trace for trace in drawn["data"]}
    assert traces["run"]["y"] == [*BEFORE, *AFTER]
    assert traces["run"]["customdata"][0] == [f"/runs/{slower[0].run_id}/"]
    assert traces[history.CONFIRMED_NAME]["x"][:2] == [12.5, 12.5]
    assert traces[history.CONFIRMED_NAME]["text"][1] == "changed −20 %"
    assert traces[history.LEVEL_NAME]["y"] == [100.0, 100.0, None, 80.0, 80.0, None]
    assert history.POSSIBLE_NAME not in traces and history.IGNORED_CHANGE_NAME not in traces


def test_a_run_that_stands_out_is_marked(web, bench):
    attempts = nightly(bench, [*BEFORE, 60.0, *BEFORE[:2]])
    text = page_of(web, attempts[0]).content.decode()
    assert text.count("Stands out (") == 1
    drawn = web.get(reverse("run-history-figure", args=[attempts[0].run_id])).json()
    (ring,) = [t for t in drawn["data"] if t["name"] == history.UNUSUAL_NAME]
    assert (ring["x"], ring["y"]) == ([13], [60.0])


def test_few_runs_say_that_they_are_few(web, bench):
    attempts = nightly(bench, BEFORE[:3])
    text = page_of(web, attempts[0]).content.decode()
    assert "A change can be seen from 6 runs on; there are 3." in text


def test_only_the_same_fingerprint_and_what_succeeded(bench, user):
    mine = nightly(bench, BEFORE)
    nightly(bench, BEFORE[:3], first=50, digest="b" * 64)
    failed = nightly(bench, [7.0], first=60)[0]
    Attempt.objects.filter(pk=failed.pk).update(outcome=Outcome.FAILED)
    found = read_history(user, mine[0].run)
    assert [one.run for one in found.runs] == [one.run_id for one in mine]
    assert found.builds == 4


def test_of_a_run_its_last_attempt_counts(bench, user):
    attempts = nightly(bench, BEFORE[:3])
    again = Attempt.objects.get(pk=attempts[1].pk)
    Attempt.objects.filter(pk=again.pk).update(number=2)
    first = Attempt.objects.create(
        run=again.run, layout=again.layout, number=1, phase="done", outcome=Outcome.SUCCEEDED,
        fingerprint=DIGEST, started_at=BEGIN,
    )  # fmt: skip
    first.measurements.create(name="iops", value=5.0, unit="op/s")
    assert sorted(one.value for one in read_history(user, again.run).runs) == [99.0, 100.0, 101.0]


def other_facts(bench, **changed):
    facts = made.facts() | changed
    return FactSnapshot.objects.create(host=bench.host, facts=facts)


def test_a_kernel_may_be_let_go(web, bench, user):
    """Twelve runs under one kernel, nine under the next, which is a fifth slower."""
    old = nightly(bench, BEFORE)
    newer = other_facts(bench, kernel="6.12.9-amd64")
    new = nightly(bench, AFTER, first=20, digest="b" * 64, facts=newer)
    assert len(read_history(user, old[0].run).runs) == 12
    answer = page_of(web, old[0], without="kernel")
    found = answer.context["history"]
    assert [one.run for one in found.runs] == [one.run_id for one in [*old, *new]]
    text = " ".join(answer.content.decode().split())
    assert "Kernel there: 6.1.0-28-amd64 before, 6.12.9-amd64 since." in text
    drawn = web.get(answer.context["figure_url"]).json()
    (moved,) = [t for t in drawn["data"] if t["name"] == history.IGNORED_CHANGE_NAME]
    assert moved["x"] == [12.5, 12.5, None]


@pytest.mark.parametrize(
    "changed",
    [
        {"memory": 32 << 30},
        {"cpus": 8},
        {"devices": [{**one, "model": "OTHER"} for one in made.facts()["devices"]]},
    ],
)
def test_another_part_is_not_let_go_with_it(bench, user, changed):
    old = nightly(bench, BEFORE[:3])
    nightly(
        bench, AFTER[:3], first=20, digest="b" * 64,
        facts=other_facts(bench, kernel="6.12.9-amd64", **changed),
    )  # fmt: skip
    assert len(read_history(user, old[0].run, let_go="kernel").runs) == 3


def test_a_scheduler_and_a_tool_may_be_let_go(bench, user):
    old = nightly(bench, BEFORE[:3])
    devices = [{**one, "scheduler": "bfq"} for one in made.facts()["devices"]]
    nightly(bench, AFTER[:3], first=20, digest="b" * 64, facts=other_facts(bench, devices=devices))
    tool = nightly(
        bench, AFTER[:3], first=30, digest="c" * 64, facts=Attempt.objects.get(pk=old[0].pk).facts
    )
    Attempt.objects.filter(pk__in=[one.pk for one in tool]).update(tool_version="fio-3.39")
    schedulers = read_history(user, old[0].run, let_go="scheduler")
    assert [one.ignored_value for one in schedulers.runs] == [*[""] * 3, *["bfq"] * 3]
    tools = read_history(user, old[0].run, let_go="tool")
    assert [one.ignored_value for one in tools.runs] == [*["fio-3.33"] * 3, *["fio-3.39"] * 3]
    assert len(read_history(user, old[0].run, let_go="kernel").runs) == 3


def test_firmware_may_be_let_go_and_what_never_told_it_is_another(bench, user):
    """Measured before firmware was read, then with two revisions of it."""
    old = nightly(bench, BEFORE[:3])
    for number, revision in enumerate(("HPG0", "HPG1"), 1):
        devices = [{**one, "firmware": revision} for one in made.facts()["devices"]]
        facts = other_facts(bench, devices=devices)
        nightly(bench, AFTER[:3], first=20 * number, digest=str(number) * 64, facts=facts)
    found = read_history(user, old[0].run, let_go="firmware")
    assert [one.ignored_value for one in found.runs] == [*[""] * 3, *["HPG0"] * 3, *["HPG1"] * 3]
    assert len(read_history(user, old[0].run, let_go="kernel").runs) == 3


def test_what_was_degraded_is_apart(bench, user):
    old = nightly(bench, BEFORE[:3])
    new = nightly(bench, AFTER[:3], first=20, digest="b" * 64,
                  facts=other_facts(bench, kernel="6.12.9-amd64"))  # fmt: skip
    Attempt.objects.filter(pk=new[0].pk).update(
        degraded=[{"says": "a mirror lost sdb", "seen": "before"}]
    )
    assert len(read_history(user, old[0].run, let_go="kernel").runs) == 5


def test_another_metric_and_one_that_nobody_measured(web, slower):
    answer = page_of(web, slower[0], metric="lat.mean")
    (step,) = answer.context["history"].history_changes
    assert step.change_text == "25 % higher"
    assert "Total latency" in answer.content.decode() or "lat.mean" in answer.content.decode()
    nothing = page_of(web, slower[0], metric="one.fsync.ops")
    assert nothing.context["history"].runs == ()
    assert "No run of this set-up has succeeded" in nothing.content.decode()


@pytest.mark.parametrize(
    "query", [{"without": "disks"}, {"metric": "<b>"}, {"metric": "one.*.ops"}]
)
def test_wrong_words_are_refused(web, slower, query):
    assert page_of(web, slower[0], **query).status_code == 400


def test_a_run_that_never_succeeded_has_none(web, bench):
    attempt = nightly(bench, [5.0])[0]
    Attempt.objects.filter(pk=attempt.pk).update(outcome=Outcome.FAILED)
    assert page_of(web, attempt).context["history"].runs == ()


def test_another_team_sees_nothing(other_web, web, client, slower):
    urls = [
        reverse(name, args=[slower[0].run_id]) for name in ("run-history", "run-history-figure")
    ]
    assert [other_web.get(url).status_code for url in urls] == [404, 404]
    assert [client.get(url).status_code for url in urls] == [302, 302]


def test_a_run_of_mine_brings_no_run_of_another_team(bench, other_team_run, user):
    """Equal fingerprints in two teams: each sees its own."""
    mine = nightly(bench, BEFORE[:3])
    assert [one.run for one in read_history(user, mine[0].run).runs] == [one.run_id for one in mine]
    assert [one.run for one in read_history(user, mine[0].run, let_go="kernel").runs] == [
        one.run_id for one in mine
    ]


@pytest.fixture
def other_team_run(other_user):
    other_team = other_user.teams.get()
    theirs = SimpleNamespace(
        team=other_team,
        host=made.host(other_team, "theirs"),
        stack=made.topology(other_team, "LVM 64 KiB"),
        load=made.workload(other_team),
    )
    return nightly(theirs, BEFORE[:3])[0]


def test_the_api_tells_the_same(user, slower):
    answer = client_of(user).get("/api/history/", {"run": slower[3].run_id})
    assert answer.status_code == 200
    said = answer.json()
    assert (said["metric"], said["unit"], said["without"], said["left_out"]) == (
        "iops",
        "op/s",
        "",
        0,
    )
    assert [one["value"] for one in said["runs"]] == [*BEFORE, *AFTER]
    (change,) = said["changes"]
    assert change == {
        "at": 12, "run": slower[12].run_id, "before": 100.0, "after": 80.0, "ratio": 0.8, "confirmed": True,
        "verdict": "changed", "says": "20 % lower",
    }  # fmt: skip
    assert said["unusual"] == [] and said["drift"] is None


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "run"),
        ({"run": "x"}, "run"),
        ({"run": "1", "without": "disks"}, "without"),
        ({"run": "1", "metric": "a b"}, "metric"),
        ({"run": "1", "host": "2"}, "host"),
        ({"run": ["1", "2"]}, "run"),
    ],
)
def test_the_api_names_what_is_wrong(user, query, field):
    answer = client_of(user).get("/api/history/", query)
    assert answer.status_code == 400 and list(answer.json()["errors"]) == [field]


def test_the_api_tells_nothing_to_another_team(other_user, slower):
    answer = client_of(other_user).get("/api/history/", {"run": slower[0].run_id})
    assert answer.status_code == 404


def test_queries_do_not_grow_with_the_runs(web, bench, django_assert_max_num_queries):
    attempts = nightly(bench, [*BEFORE, *AFTER, *AFTER])
    page_of(web, attempts[0])
    with django_assert_max_num_queries(20):
        page_of(web, attempts[0], without="kernel")


def test_a_run_leads_to_its_history(web, slower):
    text = web.get(reverse("run-detail", args=[slower[0].run_id])).content.decode()
    assert reverse("run-history", args=[slower[0].run_id]) in text
