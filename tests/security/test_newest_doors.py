"""Words of an operator with bad intent in the newest drivers' options, and where a viewer of another team knocks."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from agents import options as driver_options
from agents.contracts import AgentError, OptionsError, Target
from agents.drivers import registry
from agents.drivers.protocols import Layer
from benchlab.audit.models import Entry
from benchlab.campaigns import cost
from benchlab.runs.models import Attempt
from benchlab.sharing import links
from benchlab.sharing.models import Share
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role
from benchlab.testing import profiles
from benchlab.verdicts.models import DismissedAnswer
from tests.charts import made
from tests.team.test_table import actions, pages

HOSTILE: tuple[Any, ...] = (
    "/etc/shadow", "../../etc/shadow", "$(reboot)", "`reboot`", "; reboot", "a\nreboot", "a\0b", "--help", "-h",
    "--key-file=/dev/sda", "--header /dev/sda", "--file-extra-flags=/etc/x", "aes-xts-plain64 --debug",
    "capi:xts(aes)-plain64",
    ":32:logon:mykey", "/dev/sda", "", " ", "é", "x" * 10_000, "NaN", "1e9", "0x10", True,
    False, None, -1, 0, 2**70, 1.5,
    float("nan"), float("inf"), [], ["luks2"], {"a": 1},
)  # fmt: skip


def fields() -> list[Any]:
    drivers: list[Any] = [registry.layer("dm_crypt"), registry.tool("sysbench")]
    return [(driver, name) for driver in drivers for name in driver.Options.__dataclass_fields__]


@pytest.mark.parametrize(
    ("driver", "name"), fields(), ids=lambda one: one if isinstance(one, str) else one.LABEL
)
def test_no_option_of_the_newest_drivers_takes_a_word_of_ones_own(driver, name):
    """Only one of the choices passes, a number in its bounds, or a switch; never a text that was not listed."""
    plain = getattr(driver.Options(), name)
    for value in HOSTILE:
        try:
            built = driver_options.build_options(driver.Options, {name: value})
        except OptionsError as error:
            assert len(str(error)) < 9000, len(str(error))
            continue
        now = getattr(built, name)
        assert type(now) is type(plain), (name, value)
        field = driver.Options.__dataclass_fields__[name]
        if isinstance(now, str):
            assert now in field.metadata["choices"], (name, value)
        elif isinstance(now, int) and not isinstance(now, bool):
            assert 0 <= now < (2**31 if field.metadata.get("depth") else 2**63), (name, value)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("fio", {"iodepth": 2**31 - 1, "numjobs": 2}),
        ("fio", {"iodepth": 2**20, "numjobs": 2**20}),
        ("sysbench", {"threads": 2**31 - 1, "io_mode": "async", "async_backlog": 128}),
    ],
)
def test_more_outstanding_than_can_be_stored_is_told(tool, given):
    """Each option alone would pass; the sum was the database's to refuse, with an internal error."""
    target = Target("bl17", mount="/mnt/benchlab/bl17", size=1 << 40)
    try:
        built = driver_options.build_options(registry.tool(tool).Options, given)
        found = cost._point_cost(tool, built, target)
    except AgentError as error:
        assert "outstanding" in str(error) or any(name in str(error) for name in given)
        return
    assert (found.outstanding or 0) < 2**31


def test_a_key_is_in_no_word_that_anybody_reads():
    """Neither the plan's text nor a process list nor the log has one: it is drawn on the host, by the command."""
    layer: Layer[Any] = registry.layer("dm_crypt")
    script = next(iter(layer.SCRIPTS))  # type: ignore[attr-defined]
    assert "/dev/urandom" in script and "--key-file -" in script
    named = [line for line in script.splitlines() if "$key" in line]
    assert all(line.startswith(('echo "$key" | cryptsetup', "[ ${#key}")) for line in named), named
    assert not any(word in script for word in ("set -x", "export", "tee", ">", "env "))


@pytest.fixture
def both(team, other_user):
    """The same was measured by two teams: equal fingerprints, equal names of workloads, and each host's own name."""
    found = {}
    for one, name in ((team, "ours"), (Team.objects.get(name="Others"), "theirs")):
        host = made.host(one, f"host-{name}")
        campaign, load = made.campaign(one, f"campaign-{name}"), made.workload(one, "randread")
        layouts = [
            made.done_layout(campaign, host, made.topology(one, f"{n}-{name}")) for n in ("A", "B")
        ]
        points = [
            made.Point(depth, repeat, 1000.0 * depth) for depth in (1, 2) for repeat in (1, 2, 3)
        ]
        runs = [
            run for layout in layouts for run in made.finish_all(campaign, layout, load, points)
        ]
        Attempt.objects.filter(pk__in=[run.pk for run in runs]).update(fingerprint="f" * 64)
        found[name] = campaign, runs, layouts
    return found


PLACES = (
    "/api/verdicts/?campaign={campaign}",
    "/api/history/?run={run}",
    "/api/history/?run={run}&without=kernel",
    "/runs/{run}/history/",
    "/runs/{run}/history/?without=kernel",
    "/runs/{run}/history.json",
    "/compare/?campaign={campaign}",
    "/explore/?campaign={campaign}",
    "/explore/figure.json?campaign={campaign}",
    "/explore/numbers.csv?campaign={campaign}",
    "/explore/?campaign={own}&campaign={campaign}&x=iops&y=lat.mean&facet=line",
    "/explore/?campaign={own}&where=campaign_id = {campaign}",
    "/compare/?campaign={own}&campaign={campaign}",
    "/api/verdicts/?campaign={own}&campaign={campaign}",
    "/api/verdicts/?campaign={own}&baseline={topology}",
    "/api/verdicts/?campaign={own}&topology={topology}",
    "/api/verdicts/?campaign={own}&host={host}",
    "/compare/?campaign={own}&topology={topology}",
    "/compare/?campaign={own}&baseline={topology}",
    "/campaigns/{own}/?baseline={topology}",
    "/api/history/?run={mine}",
    "/runs/{mine}/history/",
    "/runs/{mine}/history.json",
)


@pytest.mark.one_in(4)
@pytest.mark.django_db
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("known", [True, False])
def test_another_teams_results_are_nowhere(web, both, place, known):
    """Theirs and what never was answer alike, and nothing of theirs is told beside ours."""
    campaign, runs, layouts = both["theirs"]
    own, mine, _ = both["ours"]
    there = {"campaign": campaign.pk, "run": runs[0].run_id, "topology": layouts[0].topology_id,
             "host": layouts[0].host_id}  # fmt: skip
    if not known:
        there = dict.fromkeys(there, 10**9)
    answer = web.get(place.format(**there, own=own.pk, mine=mine[0].run_id))
    assert answer.status_code in (200, 302, 400, 404), place
    assert "theirs" not in answer.text, place
    strange = {str(run.run_id) for run in runs}
    if answer.status_code == 200 and "json" in answer["Content-Type"]:
        told = json.dumps(answer.json())
        assert not any(f'"run": {pk},' in told or f"/runs/{pk}/" in told for pk in strange), place
    else:
        assert not any(f"/runs/{pk}/" in answer.text for pk in strange if f"/runs/{pk}/" not in place.format(
            **there, own=own.pk, mine=mine[0].run_id)), place  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(
    "place", [place for place in PLACES if "{own}" not in place and "{mine}" not in place]
)
def test_theirs_and_what_never_was_answer_alike(web, both, place):
    campaign, runs, _ = both["theirs"]
    theirs = web.get(place.format(campaign=campaign.pk, run=runs[0].run_id))
    never = web.get(place.format(campaign=10**9, run=10**9))
    assert theirs.status_code == never.status_code
    assert theirs.status_code != 200 or place.startswith(
        ("/compare/", "/explore/", "/api/verdicts/")
    )


@pytest.mark.one_in(4)
@pytest.mark.django_db
@pytest.mark.parametrize("place", PLACES)
def test_a_guest_gets_none_of_them(client, both, place):
    """Without a log-in, with or without a share's link in hand, these are no pages of a share."""
    campaign, runs, layouts = both["ours"]
    answer = client.get(place.format(campaign=campaign.pk, run=runs[0].run_id, topology=layouts[0].topology_id,
                                     host=layouts[0].host_id, own=campaign.pk, mine=runs[0].run_id))  # fmt: skip
    assert answer.status_code in (302, 401, 403) and "ours" not in answer.text


# What stands where a line's key is expected.
ODD_BASELINES = (
    "t", "t-1", "t0", "t" + "9" * 18, "t" + "9" * 19, "9" * 18, "9" * 400, "t1.", ".", "...", ".t1", "t1.t2",
    "c1.h1.t1.mbuilt.r00000000", "r00000000", "rzzzzzzzz", "mafter-999999999", "mafter-9999999999", "m", "mbuilt'",
    "w1", "t1 OR 1=1", "t1%00", "t1\0", "٣", "t٣", "t1\n", "<b>", "{{7*7}}", "é" * 300, "../", "t1&campaign=1", "-1",
    "1e3", "NaN", "None", "true", "\N{GRINNING FACE}",
)  # fmt: skip
HOLD_AGAINST = (
    "/campaigns/{own}/?{odd}",
    "/campaigns/{own}/report/?{odd}",
    "/campaigns/{own}/report.html?{odd}",
    "/compare/?campaign={own}&{odd}",
    "/api/verdicts/?campaign={own}&{odd}",
)


@pytest.mark.draws
@pytest.mark.one_in(4)
@pytest.mark.django_db
@pytest.mark.parametrize("place", HOLD_AGAINST)
def test_no_odd_baseline_breaks_a_page_or_is_told_as_it_came(web, both, place):
    own = both["ours"][0].pk
    for odd in profiles.drawn(f"baselines at {place}", ODD_BASELINES, quick=8, more=16):
        answer = web.get(place.format(own=own, odd=urlencode({"baseline": odd})))
        assert answer.status_code in (200, 400), (place, odd)
        assert "json" in answer["Content-Type"] or "<b>'" not in answer.text, (place, odd)
        assert "theirs" not in answer.text, (place, odd)


ODD_ANSWERS = (
    "", "-", "x", "-" * 40, "f" * 24, "f" * 24 + "-" + "f" * 8, "f" * 41, "f" * 10_000, "\0", "' OR 1=1 --", "%",
    "é" * 24, "__all__", "{}", "[]", "../../x",
)  # fmt: skip
DOORS = (
    "/campaigns/{campaign}/answers/dismiss/",
    "/campaigns/{campaign}/answers/take-back/",
    "/api/verdicts/{campaign}/dismiss/",
    "/api/verdicts/{campaign}/take-back/",
)


def knock(client, url: str, body: dict[str, str], **rest: Any) -> Any:
    """As a form of a page, or as JSON."""
    kind = {"content_type": "application/json"} if url.startswith("/api/") else {}
    return client.post(url, body, **kind, **rest)


def key_of(client, campaign) -> str:
    [answer] = client.get("/api/verdicts/", {"campaign": campaign.pk}).json()["results"]
    return answer["key"]


@pytest.mark.one_in(4)
@pytest.mark.django_db
@pytest.mark.parametrize("door", DOORS)
def test_no_odd_key_or_query_breaks_dismissing(web, both, door):
    own = both["ours"][0]
    url = door.format(campaign=own.pk)
    for odd in ODD_ANSWERS:
        answer = knock(web, url, {"answer": odd, "note": "x"})
        assert answer.status_code in (302, 400, 404), (door, odd)
    key = key_of(web, own)
    queries = [urlencode({"baseline": odd}) for odd in ODD_BASELINES if odd.isascii()]
    queries += [
        "campaign=x",
        "campaign=" + "9" * 30,
        "metric=;",
        "moment=never",
        "stage=x&topology=-1",
    ]
    for query in queries:
        answer = knock(web, f"{url}?{query}", {"answer": key, "note": "x", "on": "//evil.example"})
        assert answer.status_code in (200, 302, 400, 404, 409), (door, query)
        assert str(answer.get("Location", "/")).startswith(("/campaigns/", "/")), (door, query)
        assert not str(answer.get("Location", "/")).startswith("//"), (door, query)


@pytest.mark.django_db
@pytest.mark.parametrize("door", DOORS)
def test_theirs_cannot_be_dismissed_from_outside(web, other_web, both, door):
    """By its own key, beside one's own campaign, and under one's own campaign's address: no row, no word of theirs."""
    (ours, *_), (theirs, *_) = both["ours"], both["theirs"]
    key = key_of(other_web, theirs)
    asked = (
        (theirs.pk, ""),
        (theirs.pk, f"?campaign={theirs.pk}&campaign={ours.pk}"),
        (ours.pk, f"?campaign={theirs.pk}"),
        (ours.pk, f"?campaign={ours.pk}&campaign={theirs.pk}"),
        (10**9, ""),
    )
    for pk, query in asked:
        url = f"{door.format(campaign=pk)}{query}"
        answer = knock(web, url, {"answer": key, "note": "x"}, follow=True)
        assert "theirs" not in answer.text, url
        assert answer.status_code == 404 or "There is no such answer" in answer.text, url
        assert pk == ours.pk or answer.status_code == 404, url
    assert not DismissedAnswer.objects.exists()
    assert not Entry.objects.filter(subject__contains="theirs", team_id=ours.team_id).exists()


@pytest.mark.django_db
@pytest.mark.parametrize("door", DOORS)
def test_neither_a_viewer_nor_a_guest_dismisses(client, web, both, team, django_user_model, door):
    own = both["ours"][0]
    key = key_of(web, own)
    url = door.format(campaign=own.pk)
    stranger = knock(client, url, {"answer": key, "note": "x"})
    assert stranger.status_code in (302, 401, 403)
    assert stranger.status_code != 302 or stranger["Location"].startswith("/login/")
    vera = django_user_model.objects.create_user("vera")
    Membership.objects.create(team=team, user=vera, role=Role.VIEWER)
    client.force_login(vera)
    assert knock(client, url, {"answer": key, "note": "x"}).status_code == 403
    for method in ("get", "put", "delete", "patch"):
        assert getattr(client, method)(url).status_code in (403, 404, 405), method
    assert not DismissedAnswer.objects.exists()


@pytest.mark.django_db
def test_a_note_stays_words(web, both):
    own = both["ours"][0]
    note = "<script>alert(1)</script>\u202e{{ 7 }}"
    url = f"/api/verdicts/{own.pk}/dismiss/"
    assert knock(web, url, {"answer": key_of(web, own), "note": note}).status_code == 200
    for page in (f"/campaigns/{own.pk}/", f"/compare/?campaign={own.pk}"):
        text = web.get(page).text
        assert "&lt;script&gt;alert(1)" in text and "<script>alert(1)" not in text, page
        assert "\u202e" not in text, page
    assert "alert(1)" not in web.get(f"/campaigns/{own.pk}/report.html").text, "counted, not told"


def doors_of_answers() -> list[tuple[str, str]]:
    """(deed, address) of each, found by walking: whoever adds one later has it tried here."""
    found = [
        (name.removeprefix("campaign-answer-"), "/" + route.replace("<int:pk>", "{campaign}"))
        for name, _, route in pages()
        if name.startswith("campaign-answer-")
    ]
    found += [
        (action.replace("_", "-"), f"/api/{prefix}/{{campaign}}/{action.replace('_', '-')}/")
        for prefix, action, method, viewset in actions()
        if method == "post" and prefix == "verdicts"
    ]
    return sorted(found)  # dismissed first, then taken back


def person_of(who: str, team: Any, campaign: Any) -> Client:
    """Logged in, or with a link for guests that they have opened."""
    client = Client()
    if who == "guest":
        Share.objects.create(
            team=team, kind="campaign", name="c", object_id=campaign.pk, digest=links.token_digest("open"),
            expires_at=timezone.now() + timedelta(days=1),
        )  # fmt: skip
        assert client.get("/s/open/").status_code == 200
        return client
    one = get_user_model().objects.create_user(who)
    if who == "another team's owner":
        team = Team.objects.create(name="Elsewhere")
    Membership.objects.create(team=team, user=one, role=ROLE_OF.get(who, Role.OWNER))
    client.force_login(one)
    return client


ROLE_OF = {"operator": Role.OPERATOR, "viewer": Role.VIEWER}
# (on a page, by API); a page asks a guest to log in.
ANSWERS = {
    "owner": (302, 200), "operator": (302, 200), "viewer": (403, 403), "another team's owner": (404, 404),
    "guest": (302, 401),
}  # fmt: skip


def test_every_door_of_answers_is_walked():
    assert {url for _, url in doors_of_answers()} == set(DOORS)


@pytest.mark.django_db
@pytest.mark.parametrize("who", ANSWERS)
def test_each_role_at_each_door_of_answers(web, both, team, who):
    """Before and after it was dismissed: refused, a person changes nothing, and reads no word of the note."""
    own = both["ours"][0]
    client, may = person_of(who, team, own), who in ("owner", "operator")
    for deed, door in doors_of_answers():
        before = list(DismissedAnswer.objects.values("dismissed_at", "note"))
        url = door.format(campaign=own.pk)
        answer = knock(client, url, {"answer": key_of(web, own), "note": f"of {who}"})
        assert answer.status_code == ANSWERS[who][url.startswith("/api/")], url
        if who == "guest" and answer.status_code == 302:
            assert answer["Location"].startswith("/login/"), url
            assert knock(client, f"/s/open{url}", {"answer": "x", "note": "x"}).status_code == 404
        if may:
            [row] = DismissedAnswer.objects.all()
            assert (row.dismissed_at is not None) == (deed == "dismiss"), url
        else:
            assert list(DismissedAnswer.objects.values("dismissed_at", "note")) == before, url
            knock(
                web, f"/api/verdicts/{own.pk}/dismiss/", {"answer": key_of(web, own), "note": "q7q"}
            )
            assert "q7q" not in answer.text
    page = client.get(f"/campaigns/{own.pk}/").text
    assert ("/answers/" in page) == may
