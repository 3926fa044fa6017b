"""Odd queries and forms: what a parameter or field has is answered or refused in words, and never a failure of ours.

Which ones an address has is seen, not listed: those that its view looks for when it is asked plainly.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.http import QueryDict
from django.test import Client

from benchlab.results.query_language import OPERATORS, OWN_PARAMETERS
from benchlab.team import permissions
from benchlab.testing import profiles
from tests.team.test_table import ACTIONS, PAGES, rolled_back, row_of, url

JUNK = (  # as it stands in the address
    "%00", "a%00b", "-1", "0", "99999999999999999999", "9" * 5000, "2147483648", "9223372036854775808", "1e999", "1_0",
    "nan", "-inf", "%ED%A0%80", "%FF%FE", "%C3", "%", "%E2%80%AE", "%D9%A3", "%C2%B2", "%F0%9F%92%A9" * 300,
    "x" * 5000, "x" * 201, "", "+", "-", "--", ".", ",,,", "%5B", "%7B%7D", "%7B%22a%22:%5B%5D%7D",
    "%5B1,%22a%22,null%5D",
    "%5B" * 3000, "**", "true", "None", "%27%22%3E%3Cscript%3E", "%25%25s", "%5C", "..%2F..%2Fetc%2Fpasswd",
    "%0d%0aSet-Cookie:%20a=b", "0x10", "1.5", "%D9%A3,%C2%B2", "iops,", "-%00", "2026-13-45", "0000-00-00T99", "(", "*",
)  # fmt: skip
# Of tables that are asked in the language of the exports, which takes whatever there is: its words, and some columns.
LANGUAGE = (
    *OWN_PARAMETERS,
    *(f"{column}__{operator}" for column in ("campaign_id", "host") for operator in OPERATORS),
    *("cursor", "group", "started_at__gt", "point", "point.iodepth", "param.bs__in", "degraded"),
    *("metric.iops__gt", "metric.%00"),
)
# Everywhere, whether an address looks for them or not.
ALWAYS = ("page", "q", "sort", "task", "format")
# In a form; Python reads at most 4,300 digits.
TYPED = ("9" * 5000, "9" * 19, "٣", "²", "-1", "a\0b", "x" * 5000, "[" * 3000, "", "layout-", "{}")
NOT_HERE = {"campaign-events", "openid_connect_login", "openid_connect_callback", "logout"}
ASKED_BY: tuple[dict[str, str], ...] = ({}, {"HX-Request": "true", "HX-Target": "campaign-now"})
SAMPLE = {profiles.QUICK: 150, profiles.CI: 200, profiles.FULL: 6_000}  # of some hundred thousand
SLOW_S = 20.0  # a busy machine; what hangs takes for ever


def addresses(rows: Any) -> Iterator[str]:
    """Every page and every GET of the API."""
    for name, rule in permissions.PAGES.items():
        if rule.see and name in PAGES and name not in NOT_HERE:
            yield url(name, rows)
    for prefix, action, noun in sorted({(p, a, n) for p, a, m, n in ACTIONS if m == "get"}):
        path = f"/api/{prefix}/"
        if action != "list":
            path += f"{row_of(noun, rows)}/"
            path += "" if action == "retrieve" else f"{action.replace('_', '-')}/"
        yield path


@pytest.fixture
def looked_for(monkeypatch) -> set[str]:
    """Names by which queries were looked into since it was cleared."""
    found: set[str] = set()

    def noted(method: str) -> None:
        real = getattr(QueryDict, method)

        def looked(self: QueryDict, name: Any, *more: Any, **given: Any) -> Any:
            if isinstance(name, str):
                found.add(name)
            return real(self, name, *more, **given)

        monkeypatch.setattr(QueryDict, method, looked)

    for method in ("get", "getlist", "__getitem__", "__contains__"):
        noted(method)
    lists = QueryDict.lists

    def looked(self: QueryDict) -> Any:
        found.update(LANGUAGE)
        return lists(self)

    monkeypatch.setattr(QueryDict, "lists", looked)
    return found


def cases(web: Client, rows: Any, looked_for: set[str]) -> list[tuple[str, str, str]]:
    """(address, parameter, junk), each."""
    found = []
    for address in dict.fromkeys(addresses(rows)):
        looked_for.clear()
        body(web.get(address))
        names = sorted({*ALWAYS, *looked_for})
        found += [(address, name, junk) for name in names for junk in JUNK]
    return found


def queries(name: str, junk: str, draw: random.Random) -> str:
    """Mostly once; else twice, beside something that is no junk, or with a name that is none."""
    other = draw.choice(JUNK)
    return draw.choice(
        [f"{name}={junk}"] * 5
        + [f"{name}={junk}&{name}={other}", f"{name}=1&{name}={junk}", f"{name}[]={junk}&{name}="]
        + [f"{name}={junk}&{other}={junk}", f"{name}&&={junk}&{name}={junk}"]
    )


def body(answer: Any) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else answer.content


@pytest.mark.draws
def test_no_query_is_a_failure(rows, owner, looked_for, settings):
    settings.BENCHLAB_API_RATES = dict.fromkeys(settings.BENCHLAB_API_RATES, 0)
    draw = profiles.random_for("odd queries")
    every = cases(owner, rows, looked_for)
    assert len({address for address, _, _ in every}) > 100
    some = draw.sample(every, SAMPLE[profiles.profile()])
    owner.raise_request_exception = False
    wrong = []
    for address, name, junk in some:
        query = queries(name, junk, draw)
        began = time.monotonic()
        answer = owner.get(f"{address}?{query}", headers=draw.choice(ASKED_BY))
        told = body(answer)
        if answer.status_code >= 500 or time.monotonic() - began > SLOW_S:
            wrong.append(f"{answer.status_code} {address}?{query[:200]}: {told[-300:]!r}")
    assert not wrong, f"{len(wrong)} of {len(some)}:\n" + "\n".join(wrong[:40])


def forms(web: Client, rows: Any, looked_for: set[str]) -> list[tuple[str, str, str]]:
    """(address, field, junk) of every page that takes a form."""
    found = []
    for name, rule in permissions.PAGES.items():
        if not rule.do or name in NOT_HERE:
            continue
        address = url(name, rows)
        looked_for.clear()
        with rolled_back(address):
            web.post(address)
        found += [(address, field, junk) for field in sorted(looked_for) for junk in TYPED]
    return found


@pytest.mark.draws
def test_no_form_is_a_failure(rows, owner, looked_for):
    draw = profiles.random_for("odd forms")
    owner.raise_request_exception = False
    every = forms(owner, rows, looked_for)
    assert len({address for address, _, _ in every}) > 50
    wrong = []
    for address, field, junk in draw.sample(every, SAMPLE[profiles.profile()]):
        with rolled_back(address):
            answer = owner.post(address, {field: junk})
        if answer.status_code >= 500:
            wrong.append(f"{answer.status_code} {address} {field}={junk[:20]!r}")
    assert not wrong, "\n".join(wrong)


LONG = "9" * 5000


@pytest.mark.parametrize(
    ("page", "fields"),
    [
        ("usersessions_list", {"session": LONG}),
        ("team-choose", {"team": LONG}),
        ("campaign-retry", {"run": LONG}),
        ("topology-new", {"do": f"move 0 {LONG}"}),
        ("topology-new", {"do": f"grow {LONG}"}),
        ("topology-new", {"stage_layer": LONG}),
    ],
)
def test_a_number_longer_than_python_reads_is_no_failure(rows, owner, page, fields):
    assert owner.post(url(page, rows), fields).status_code < 500


def test_nor_is_one_in_the_filter_of_a_table(rows, owner):
    for field in ("campaign", "run"):
        assert owner.get(f"/runs/?{field}={LONG}").status_code < 500


@pytest.mark.parametrize("query", ["taggings/?kind=", "findings/?run=", "findings/?dismissed="])
def test_a_percent_sign_is_refused_in_words(rows, owner, query):
    for asked in ("%", "%25s", "%25(x)s"):
        answer = owner.get(f"/api/{query}{asked}")
        assert answer.status_code == 400 and "%" in answer.json()["detail"], answer.content


def test_a_thousand_parameters_are_no_failure(rows, owner):
    owner.raise_request_exception = False
    for prefix in ("/", "/runs/", "/api/runs/", "/api/results/", f"/campaigns/{rows.campaign.pk}/"):
        for pairs in ([("metric", "iops")] * 1000, [(f"x{n}", "1") for n in range(6000)]):
            answer = owner.get(f"{prefix}?{urlencode(pairs)}")
            assert answer.status_code < 500, (prefix, answer.content[-300:])


def test_the_walk_looks_where_parameters_are(rows, owner, looked_for):
    """It would prove nothing where it saw none of them."""
    for address, names in {
        f"/campaigns/{rows.campaign.pk}/": {"metric", "moment", "log", "fold", "heat", "baseline", "q"},
        "/runs/": {"fields", "ordering"},
        "/compare/": {"campaign", "topology", "host", "workload"},
        f"/explore/?campaign={rows.campaign.pk}":
            {"campaign", "topology", "host", "workload", "x", "y", "where", "sort"},
        "/api/findings/": {"campaign", "severity", "kind", "dismissed", "ordering"},
    }.items():  # fmt: skip
        looked_for.clear()
        assert owner.get(address).status_code < 500
        assert names <= looked_for, (address, names - looked_for)
