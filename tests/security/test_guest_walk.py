"""A guest with bad intent: every address that there is, whoever adds one later, by every method and with every kind of
link; and under the link itself the numbers and words of all that it is not about.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from benchlab.findings.models import Finding
from benchlab.rest.urls import router
from benchlab.runs.models import Attempt, Measurement, Series, StepLog
from benchlab.sharing import links
from benchlab.sharing.models import Comment, Note, SavedView, Share
from benchlab.team import permissions
from benchlab.team.levels import Level
from benchlab.workers import messages
from tests.api.conftest import everything
from tests.charts import made
from tests.team.test_table import noun, pages, rolled_back, row_of, url
from tests.team.test_table import rows as rows  # a fixture

WORD, NUMBER = "qzhiddenwordqz", 31415926.5
# As 31.4 M op/s, too; as bandwidth it is 4096 times as much.
TELLING = (WORD, "31415926", "31415900", "31.4 M", "31.42 M", "hidden of ")
KINDS = ("run", "comparison", "view", "campaign", "report")
METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
GUESTS = [(name, route) for name, _, route in pages() if route.startswith("s/<str:token>/")]
# What a visitor's own session, a form's try to log in and the count of a link's views leave behind.
OWN = ("django_session", "sharing_share", "axes_", "audit_", "django_cache", "account_")
WRITES = re.compile(r'^\s*(?:INSERT INTO|UPDATE|DELETE FROM)\s+"?(\w+)', re.IGNORECASE)


@pytest.fixture(autouse=True)
def quiet(monkeypatch, worker_seen):
    monkeypatch.setattr(messages, "send", lambda task, pk: None)


def link(rows: Any, kind: str, user: Any, *, hide: bool) -> str:
    """The token of a link as a person makes it; of a comparison of one of the campaign's two set-ups."""
    query = f"campaign={rows.campaign.pk}&topology={rows.topology.pk}"
    if kind == "view":
        rows.view.query = query
        rows.view.save()
    about = {"run": rows.run.pk, "view": rows.view.pk, "comparison": None}
    wish = links.check_target(user, kind, about.get(kind, rows.campaign.pk), query)
    return links.create_link(wish, user, hide_hosts=hide)[1]


def hidden(team: Any) -> SimpleNamespace:
    """A campaign with the word in every text and the number in every figure."""
    host = made.host(team, f"{WORD} host of {team}")
    load, stack = made.workload(team, f"{WORD} load"), made.topology(team, f"{WORD} stack")
    campaign = made.campaign(team, f"{WORD} campaign")
    campaign.question = f"{WORD}?"
    campaign.save()
    layout = made.done_layout(campaign, host, stack)
    StepLog.objects.filter(layout=layout).update(says=WORD, stdout=WORD)
    attempts = [made.finished(campaign, layout, load, depth, 1, NUMBER) for depth in (1, 4)]
    for attempt in attempts:
        told_of(attempt, campaign, load)
    about = {"kind": "campaign", "object_id": campaign.pk}
    return SimpleNamespace(
        team=team,
        host=host,
        workload=load,
        topology=stack,
        campaign=campaign,
        layout=layout,
        attempts=attempts,
        run=attempts[0].run,
        artifact=attempts[0].artifacts.get(),
        comment=Comment.objects.create(**about, team=team, text=WORD),
        note=Note.objects.create(**about, team=team, text=WORD),
        view=SavedView.objects.create(team=team, name=WORD, query=f"campaign={campaign.pk}"),
        finding=Finding.objects.filter(campaign=campaign).first(),
    )


def told_of(attempt: Attempt, campaign: Any, load: Any) -> None:
    attempt.tool_version = f"fio {WORD}"
    attempt.argv = [WORD]
    attempt.save()
    attempt.artifacts.update(content=WORD.encode(), name=f"{WORD}.json")
    Measurement.objects.create(attempt=attempt, name="odd", value=NUMBER, unit="s", note=WORD)
    Series.objects.create(
        attempt=attempt,
        sampler="diskstats",
        device=WORD,
        metric="read.iops",
        unit="op/s",
        times=[1.0, 2.0],
        values=[NUMBER, NUMBER],
    )
    common = {"says": WORD, "severity": "doubt", "runs": [attempt.run_id], "note": WORD}
    Finding.objects.create(campaign=campaign, attempt=attempt, kind="cached_read", **common)
    Finding.objects.create(
        campaign=campaign, workload=load, kind="overtakes", about=str(attempt.pk), **common
    )


@pytest.fixture
def others(rows, user, other_user) -> list[SimpleNamespace]:
    """Rows that no link is about: of the same team, of another team; and in the shared campaign itself a second set-up,
    which only the links to the whole of it show.
    """
    other = other_user.teams.get()
    everything(other)
    return [hidden(rows.team), hidden(other)]


def second_set_up(rows: Any) -> Attempt:
    """In the shared campaign, beside what a link to a run or to one set-up is about."""
    stack = made.topology(rows.team, f"{WORD} beside")
    layout = made.done_layout(rows.campaign, rows.host, stack)
    attempt = made.finished(rows.campaign, layout, rows.workload, 1, 1, NUMBER)
    told_of(attempt, rows.campaign, rows.workload)
    return attempt


class Writes:
    """Tables that were written to."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        if (match := WRITES.match(sql)) and not match[1].startswith(OWN):
            self.found.add(match[1])
        return execute(sql, params, many, context)


def text_of(answer: Any) -> str:
    """As a reader gets it, without HTML's and JSON's own spelling."""
    raw = b"".join(answer.streaming_content) if answer.streaming else answer.content
    text = raw.decode(errors="replace")
    if answer.headers.get("Content-Type") == "application/json" and text:
        text += json.dumps(json.loads(text), ensure_ascii=False)
    return text + html.unescape(text) + str(answer.headers)


def api_addresses(rows: Any) -> Iterator[tuple[str, str, str]]:
    """(what, address, method) of every action of every noun."""
    for prefix, viewset, _ in router.registry:
        named = noun(viewset)
        for route in router.get_routes(viewset):
            for method, action in router.get_method_map(viewset, route.mapping).items():
                address = f"/api/{prefix}/"
                if route.detail:
                    address += f"{row_of(named, rows)}/"
                if action not in ("list", "create", "retrieve", "partial_update", "destroy"):
                    address += f"{action.replace('_', '-')}/"
                yield f"{named}.{action}", address, method


def every_address(rows: Any) -> list[tuple[str, str, str]]:
    found = list(api_addresses(rows))
    for name, _, route in pages():
        if not route.startswith("s/<str:token>/"):
            found += [(name, url(name, rows), method) for method in ("get", "post", "delete")]
    return found


def test_links_open_no_other_address_whatever_the_method(rows, user):
    """To somebody who has one of each kind; also where the token is sent as a key, a cookie, a field, and by the page
    that one came from.
    """
    guest = Client()
    tokens = [link(rows, kind, user, hide=False) for kind in KINDS]
    for token in tokens:
        assert guest.get(f"/s/{token}/").status_code == 200
    asked = every_address(rows)
    assert len(asked) > 500
    for number, (name, address, method) in enumerate(asked):
        token = tokens[number % len(tokens)]
        guest.cookies["token"] = guest.cookies[settings.SESSION_COOKIE_NAME] = token
        headers = {"Authorization": f"Token {token}", "Referer": f"http://testserver/s/{token}/"}
        sent = {"token": token, "note": "x", "text": "x"}
        writes = Writes()
        with rolled_back(f"{method} {address}"), connection.execute_wrapper(writes):
            answer = getattr(guest, method)(address, sent, headers=headers)
        said = f"{method} {address} ({name}): {answer.status_code}"
        assert not writes.found, f"{said} wrote {writes.found}"
        assert rows.campaign.name not in text_of(answer), said
        if name in permissions.PAGES:
            level = permissions.page_level(name, "GET" if method == "head" else method.upper())
            if level is Level.ANYONE:
                continue  # a page to log in, and its like
        to_log_in = answer.status_code == 302 and answer["Location"].startswith("/login/")
        assert to_log_in or answer.status_code in (401, 403, 404, 405), said


def adversarial(rows: Any, others: list[SimpleNamespace]) -> list[str]:
    """Query strings that ask for what the link is not about."""
    found = ["", "metric=odd", "metric=iops", "metric=bandwidth", "latency=clat.all", "moment=0"]
    for name in ("campaign", "topology", "workload", "host"):
        found.append("&".join(f"{name}={getattr(row, name).pk}" for row in others))
    for row in others:
        ids = {
            "campaign": row.campaign.pk,
            "topology": row.topology.pk,
            "workload": row.workload.pk,
            "host": row.host.pk,
            "run": row.run.pk,
            "attempt": row.attempts[0].number,
            "artifact": row.artifact.pk,
            "baseline": row.topology.pk,
            "query": f"campaign={row.campaign.pk}",
            "object": row.campaign.pk,
            "kind": "campaign",
        }
        found.append("&".join(f"{name}={value}" for name, value in ids.items()))
        found.append(f"campaign={rows.campaign.pk}&campaign={row.campaign.pk}")
    return found


def guest_addresses(token: str, others: list[SimpleNamespace]) -> list[str]:
    """Every address under the link, with the ids of what it is not about where it takes one."""
    found = []
    for _, route in GUESTS:
        address = f"/{route}".replace("<str:token>", token).replace("<slug:which>", "zpool")
        pks = [row.artifact.pk for row in others]
        found += (
            [address.replace("<int:pk>", str(pk)) for pk in pks] if "<" in address else [address]
        )
        assert "<" not in found[-1], f"say what {found[-1]} means"
    return list(dict.fromkeys(found))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
def test_under_the_link_nothing_else_can_be_read(rows, others, user, kind):
    token = link(rows, kind, user, hide=False)
    if kind not in links.WHOLE:
        others = [
            *others,
            SimpleNamespace(**vars(others[0]) | {"artifact": second_set_up(rows).artifacts.get()}),
        ]
    guest = Client()
    answered = 0
    for address in guest_addresses(token, others):
        for query in adversarial(rows, others):
            answer = guest.get(f"{address}?{query}")
            said = f"{address}?{query}: {answer.status_code}"
            assert answer.status_code in (200, 400, 404), said
            told = text_of(answer).replace(query, "")
            for word in TELLING:
                assert word not in told, f"{word} in {said}"
            answered += answer.status_code == 200
    assert answered > 20


@pytest.mark.parametrize("kind", KINDS)
def test_under_the_link_nothing_can_be_written(rows, user, kind):
    token = link(rows, kind, user, hide=False)
    guest = Client()
    for address in guest_addresses(
        token, [SimpleNamespace(artifact=rows.attempts[0].artifacts.first())]
    ):
        for method in METHODS:
            writes = Writes()
            with connection.execute_wrapper(writes):
                answer = getattr(guest, method)(
                    address, {"note": "x", "hide_hosts": "", "name": "x"}
                )
            assert not writes.found, f"{method} {address}"
            if method not in ("get", "head"):
                assert answer.status_code == 405, f"{method} {address}: {answer.status_code}"
    kept = Share.objects.get(digest=links.token_digest(token))
    assert (kept.name, kept.hide_hosts) != ("x", True)


def test_the_word_would_be_seen_by_who_may(rows, others, web):
    """The test's own proof: to the team's people the same words are told."""
    page = text_of(web.get(f"/campaigns/{others[0].campaign.pk}/"))
    assert WORD in page
    figure = web.get(f"/campaigns/{others[0].campaign.pk}/figure.json")
    assert "31415900" in text_of(figure)  # of a chart six digits are told
