"""Every noun lists, pages, filters, orders and retrieves, and shows nothing of another team."""

from __future__ import annotations

import hashlib
from html import unescape
from typing import Any, cast

import pytest

from benchlab.campaigns.models import Workload
from benchlab.hosts.models import Credential, Host
from benchlab.rest.urls import router
from benchlab.runs.models import Artifact, Attempt, Layout
from benchlab.runs.progress import State
from benchlab.team.models import Team
from tests.api.conftest import everything, is_problem
from tests.charts import made

NOUNS = [
    "teams", "credentials", "hosts", "devices", "fact-snapshots", "topologies", "workloads",
    "campaigns", "runs", "layouts", "attempts", "steps", "transitions", "artifacts",
    "measurements", "series", "histograms",
]  # fmt: skip
# One or two for the session's user and the count; the rest by what a row needs of others.
# The token, the teams, the rows (of measurements first which); a count where there is more than a page of them;
# credentials ask for a role.
QUERIES = dict.fromkeys(NOUNS, 3) | {
    "teams": 2,
    "campaigns": 5,
    "credentials": 4,
    "measurements": 5,
    "series": 4,
}


@pytest.fixture
def both(ours, theirs):
    return ours


def results(api, path: str) -> list[dict]:
    answer = api.get(path)
    assert answer.status_code == 200, answer.content
    return answer.json()["results"]


def ids(api, path: str) -> list[int]:
    return [row["id"] for row in results(api, path)]


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_is_listed_and_read_by_its_team_only(api, other_api, both, noun):
    mine, other = ids(api, f"/api/{noun}/"), ids(other_api, f"/api/{noun}/")
    assert mine and other and not set(mine) & set(other)
    assert api.get(f"/api/{noun}/{mine[0]}/").json()["id"] == mine[0]
    is_problem(api.get(f"/api/{noun}/{other[0]}/"), 404)


@pytest.mark.parametrize("noun", NOUNS)
def test_a_list_is_ordered_newest_first_or_as_asked(api, ours, noun):
    assert ids(api, f"/api/{noun}/") == sorted(ids(api, f"/api/{noun}/"), reverse=True)
    every = f"/api/{noun}/?page_size=1000"
    assert ids(api, f"{every}&ordering=id") == sorted(ids(api, every))
    said = is_problem(api.get(f"/api/{noun}/?ordering=colour"), 400)
    assert "colour" in said["errors"]["ordering"][0] and "id" in said["errors"]["ordering"][0]


def test_every_field_that_may_order_can(api, ours):
    for prefix, view, _ in cast("list[tuple[str, Any, str]]", router.registry):
        for field in view.ordering_fields:
            assert results(api, f"/api/{prefix}/?ordering=-{field},id"), (prefix, field)


@pytest.mark.parametrize("noun", NOUNS)
def test_a_list_costs_the_same_queries_for_any_number(
    api, ours, team, django_assert_num_queries, noun
):
    again = made.campaign(team, "again")
    made.swept(again, ours.host, ours.topology, ours.workload, depths=(1, 2, 4, 8), repeats=2)
    for n in range(3):
        made.host(team, f"more{n}")
        made.topology(team, f"more{n}")
        Workload.objects.create(team=team, name=f"more{n}", tool="dd")
    with django_assert_num_queries(QUERIES[noun]):
        assert results(api, f"/api/{noun}/")


def test_pages(api, team, ours):
    for number in range(5):
        made.topology(team, f"t{number}")
    first = api.get("/api/topologies/?page_size=4&ordering=name").json()
    assert (first["count"], len(first["results"])) == (6, 4)
    rest = api.get(first["next"]).json()
    assert rest["next"] is None
    assert [t["name"] for t in first["results"] + rest["results"]] == [
        "raw", "t0", "t1", "t2", "t3", "t4",
    ]  # fmt: skip
    is_problem(api.get("/api/topologies/?page=9"), 404)


@pytest.mark.parametrize("size", ["0", "1001", "-1", "many", "²", "9" * 5000])
def test_a_page_size_that_cannot_be_is_refused(api, size):
    assert "1 to 1000" in is_problem(api.get(f"/api/hosts/?page_size={size}"), 400)["detail"]


def test_the_largest_page(api, team):
    Credential.objects.bulk_create(
        Credential(team=team, name=str(n), public_key="x", private_key=b"") for n in range(1001)
    )
    assert len(results(api, "/api/credentials/?page_size=1000")) == 1000


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("hosts/?name=host of Storage", 1),
        ("hosts/?is_local=true", 0),
        ("hosts/?is_local=False", 2),
        ("devices/?spare=false", 1),
        ("devices/?serial=S2", 0),
        ("runs/?outstanding=4", 1),
        ("runs/?repeat=1", 2),
        ("layouts/?phase=done&outcome=succeeded", 1),
        ("layouts/?phase=draft", 0),
        ("attempts/?outcome=succeeded", 2),
        ("measurements/?name=iops", 2),
        ("measurements/?name=iops&unit=s", 0),
        ("series/?metric=util&device=sdb", 1),
        ("histograms/?name=read.clat", 1),
        ("histograms/?name=write.clat", 0),
        ("steps/?kind=undo", 0),
    ],
)
def test_filters(api, ours, path, number):
    assert len(results(api, f"/api/{path}")) == number


@pytest.mark.parametrize(
    ("path", "value", "there"),
    [
        ("layouts/?phase=", "runing", "stuck, tearing_down"),
        ("attempts/?phase=", "runing", "collecting, done, queued, running, starting"),
        ("attempts/?outcome=", "succeded", "failed, interrupted"),
        ("steps/?kind=", "undoo", "undo"),
        ("hosts/?access=", "shh", "ssh"),
        ("memberships/?role=", "boss", "owner, viewer"),
        ("comments/?kind=", "hots", "host"),
        ("audit/?outcome=", "refusd", "done, refused"),
        ("runs/?tool=", "foi", "bonnie"),
        ("workloads/?tool=", "foi", "bonnie"),
        ("runs/?stage=", "after", "resync, during-1, after-1"),
        ("measurements/?stage=", "after", "resync, during-1, after-1"),
        ("measurements/?unit=", "ms", "B/s"),
        ("series/?sampler=", "disksats", "diskstats"),
        ("devices/?role=", "sdd", "none"),
        ("devices/?spare=", "yes", "true or false"),
        ("runs/?host=", "vm-09", "a whole number"),
        ("hosts/?library=", "perhaps", "true or false"),
        ("notes/?object_id=", "seven", "umber"),
    ],
)
def test_a_value_that_nobody_knows_is_refused(api, ours, path, value, there):
    """Else a typo gives no rows, as if nothing had been measured."""
    said = is_problem(api.get(f"/api/{path}{value}"), 400)
    name = path.partition("?")[2].rstrip("=")
    if name != "library" or "library" in said["errors"]:
        (text,) = said["errors"][name]
        assert there in text
    if name not in ("object_id", "library"):
        assert repr(value) in text


def test_a_filter_that_is_given_twice_is_refused(api, ours):
    """The last one would have counted, and the other been passed over."""
    said = is_problem(api.get("/api/attempts/?phase=running&phase=done"), 400)
    assert said["errors"] == {"phase": ["Given 2 times; give it once."]}


def test_words_that_only_own_rows_have_are_known(api, ours, theirs):
    type(ours.device).objects.filter(pk=ours.device.pk).update(role="journal")
    type(theirs.device).objects.filter(pk=theirs.device.pk).update(role="secret")
    assert len(results(api, "/api/devices/?role=journal")) == 1
    said = is_problem(api.get("/api/devices/?role=jurnal"), 400)["detail"]
    assert "journal" in said and "secret" not in said
    type(ours.run).objects.filter(pk=ours.run.pk).update(tool="vdbench")
    assert len(results(api, "/api/runs/?tool=vdbench")) == 1


def test_pages_refuse_likewise(web, api, ours):
    def said(page: str, query: dict[str, str]) -> str:
        answer = web.get(page, query)
        assert answer.status_code == (200 if page == "/audit/" else 400)
        return unescape(answer.text)

    for page in ("/hosts/", "/topologies/", "/workloads/", "/campaigns/"):
        assert "tag: 'nvem' is not one of them" in said(page, {"tag": "nvem"})
    wrong = {"outcome": "refusd"}
    for page in ("/audit/", "/audit/audit.csv"):
        assert "'refusd' is not one of them; there are done, refused" in said(page, wrong)
    assert "moment: 'colour' is not a stage" in said("/compare/", {"moment": "colour"})


@pytest.mark.parametrize(
    "path",
    ["runs/?campaign=", "layouts/?campaign=", "attempts/?campaign=", "measurements/?campaign="],
)
def test_what_belongs_to_a_campaign(api, both, theirs, path):
    assert results(api, f"/api/{path}{both.campaign.pk}")
    # An id of another team finds nothing, as one that nobody has: it is not told that it exists.
    assert results(api, f"/api/{path}{theirs.campaign.pk}") == []
    assert results(api, f"/api/{path}{2**62}") == []


def test_a_campaign_of_the_library_that_is_named_is_found(api, both):
    """On a fresh installation campaign 1 is the library's: it gave nothing without library=true."""
    shared = everything(Team.objects.create(name="Library", library=True))
    for noun in ("runs", "layouts", "attempts", "measurements", "artifacts", "series"):
        path = f"/api/{noun}/?" + ("attempt" if noun == "series" else "campaign") + "="
        pk = shared.attempts[0].pk if noun == "series" else shared.campaign.pk
        assert results(api, f"{path}{pk}"), noun
        assert results(api, f"{path}{pk}&library=false") == []
        assert not {row["id"] for row in results(api, f"/api/{noun}/")} & {
            row["id"] for row in results(api, f"{path}{pk}")
        }


@pytest.mark.parametrize(
    "query", ["measurements/?name=iopz", "histograms/?name=iopz", "series/?metric=iopz"]
)
def test_a_word_that_nothing_has_is_refused_with_those_there_are(api, both, query):
    (errors,) = is_problem(api.get(f"/api/{query}"), 400)["errors"].values()
    assert errors[0].startswith("'iopz' is not one of them; there are ")
    assert any(word in errors[0] for word in ("iops", "clat", "util"))


def test_a_word_that_only_other_rows_have_finds_nothing(api, ours):
    """A campaign that has no result yet is asked about all the time."""
    empty = made.campaign(ours.team)
    assert results(api, f"/api/measurements/?campaign={empty.pk}&name=iops") == []
    assert results(api, "/api/measurements/?name=iops")


def test_figures_of_a_run(api, ours):
    found = results(api, f"/api/measurements/?run={ours.run.pk}&name=iops")
    assert [(row["run"], row["outstanding"], row["topology"]) for row in found] == [
        (ours.run.pk, 1, "raw")
    ]


@pytest.mark.parametrize(
    "query",
    ["campain=1", "campaign=one", "campaign=1.5", "campaign=-1", f"campaign={2**63}", "name=%00"],
)
def test_a_filter_that_cannot_be_understood_is_refused(api, query):
    name = query.partition("=")[0]
    assert name in is_problem(api.get(f"/api/measurements/?{query}"), 400)["errors"]


def test_a_boolean_filter_takes_true_and_false_only(api):
    is_problem(api.get("/api/devices/?spare=maybe"), 400)


def test_unknown_is_null(api, unknown_values):
    row = results(api, "/api/measurements/?name=odd")[0]
    assert row["value"] is None
    series = results(api, "/api/series/?sampler=odd")[0]
    assert series["values"] == [None, None, 0.5]


def test_artifacts_come_without_content_and_byte_for_byte(api, other_api, ours):
    row = results(api, "/api/artifacts/")[0]
    assert "content" not in row
    raw = api.get(row["download"])
    assert hashlib.sha256(raw.content).hexdigest() == row["sha256"] == raw["X-Content-SHA256"]
    is_problem(other_api.get(row["download"]), 404)


def test_a_list_of_artifacts_does_not_read_them(api, ours, django_assert_num_queries):
    with django_assert_num_queries(3) as asked:
        results(api, "/api/artifacts/")
    assert not any('"content"' in query["sql"] for query in asked.captured_queries)


def test_the_private_key_stays(api, ours):
    Credential.objects.update(private_key=b"very secret")
    answer = api.get("/api/credentials/")
    assert "private_key" not in answer.json()["results"][0] and b"secret" not in answer.content


def test_campaigns_say_how_far_they_are(api, ours):
    row = api.get(f"/api/campaigns/{ours.campaign.pk}/").json()
    assert row["state"] == "done"
    assert row["progress"] == {"runs": 2, "counts": {"succeeded": 2}, "drafts": 0, "eta_s": None}


def test_campaigns_by_state_and_runs_by_outcome(api, ours):
    """As `state` and `progress` tell them, for every one of them."""
    other = made.campaign(ours.team)
    Layout.objects.create(
        campaign=other, host=ours.host, topology=ours.topology, stack=[], phase="draft"
    )
    rows = {row["id"]: row for row in results(api, "/api/campaigns/")}
    assert {row["state"] for row in rows.values()} >= {"done", "draft"}
    for state in State.values:
        found = {row["id"] for row in results(api, f"/api/campaigns/?state={state}")}
        assert found == {pk for pk, row in rows.items() if row["state"] == state}, state
    first, second = ours.campaign.runs.order_by("pk")[:2]
    layout = ours.attempts[0].layout
    again = Attempt.objects.create(
        run=first, layout=layout, number=2, phase="done", outcome="failed"
    )
    for phase, outcome, word in (
        ("done", "failed", "failed"),
        ("queued", "", "queued"),
        ("starting", "", "running"),
    ):
        Attempt.objects.filter(pk=again.pk).update(phase=phase, outcome=outcome)
        counts = api.get(f"/api/campaigns/{ours.campaign.pk}/").json()["progress"]["counts"]
        assert counts == {"succeeded": 1, word: 1}
        for asked, run in ((word, first), ("succeeded", second)):
            path = f"/api/runs/?campaign={ours.campaign.pk}&outcome={asked}"
            assert [row["id"] for row in results(api, path)] == [run.pk]
    assert (
        "succeeded" in is_problem(api.get("/api/runs/?outcome=good"), 400)["errors"]["outcome"][0]
    )
    assert "draft" in is_problem(api.get("/api/campaigns/?state=ready"), 400)["errors"]["state"][0]


def test_somebody_in_two_teams_sees_both_once(api, user, ours, theirs):
    theirs.team.membership_set.create(user=user)
    assert len(ids(api, "/api/hosts/")) == Host.objects.count() == 4
    assert len(ids(api, "/api/artifacts/")) == Artifact.objects.count()


def test_somebody_in_no_team_sees_nothing(api, user, ours):
    user.teams.clear()
    assert ids(api, "/api/campaigns/") == []
