"""Output of a malicious host, on every page, in every answer of the API and in every file: words, never markup."""

from __future__ import annotations

import csv
import io
import json
import time
from typing import Any

import pytest
from rest_framework.test import APIClient

from agents.plaintext import CONTROL
from benchlab.team import permissions
from benchlab.web.texts import FORMULA_STARTS
from tests.hashed_files import collected, hashed_files  # noqa: F401
from tests.security.hostile import MARK, SCRIPT
from tests.security.markup import Page
from tests.team.test_table import ACTIONS, PAGES, row_of, url

SEEN = sorted(name for name, rule in permissions.PAGES.items() if rule.see and name in PAGES)
# Log-in's and the provider's own ways, which show nothing of a host; streams never end.
NOT_HERE = {
    "campaign-events",
    "openid_connect_login",
    "openid_connect_callback",
    "schema",
    "api-docs",
}
SLOW_S = 20.0  # a busy machine; a page that hangs takes for ever
BIG = 8 << 20  # bytes of a page; a line of a megabyte is in several artifacts
# Pages on which the hostile host is seen; it would prove nothing to look where it is not.
SHOWN = {"host-list", "host-detail", "host-snapshot", "host-install", "device-detail", "run-detail", "campaign-detail",
         "artifact-lines", "campaign-list", "host-history", "compare", "explore",
         "shared", "campaign-report"}  # fmt: skip


def addresses(name, rows) -> list[str]:
    """Of every row that a page of this name may be about."""
    found = [url(name, rows)]
    attempt = rows.attempts[0]
    if name.startswith("artifact"):
        route = f"/{PAGES[name]}"
        found = [route.replace("<int:pk>", str(a.pk)) for a in attempt.artifacts.all()]
    if name in ("compare", "explore", "explore-figure", "explore-csv"):
        found.append(f"{found[0]}?campaign={rows.campaign.pk}")
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("partial", [False, True])
def test_no_page_makes_markup_of_it(rows, owner, partial, hashed_files):  # noqa: F811
    headers = {"HX-Request": "true"} if partial else {}
    wrong, shown = [], set()
    for name in sorted(set(SEEN) - NOT_HERE):
        for address in addresses(name, rows):
            try:
                if _look(owner, address, headers):
                    shown.add(name)
            except Exception as error:
                wrong.append(f"{name} {address}: {type(error).__name__}: {str(error)[:300]}")
    assert not wrong, "\n".join(wrong)
    assert partial or shown >= SHOWN, (
        f"{SHOWN - shown} show nothing of the host: are they the right pages?"
    )


def body_of(answer: Any) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else answer.content


def _look(web, address: str, headers) -> bool:
    """True when hostile words are shown there. AssertionError for whatever is wrong."""
    began = time.monotonic()
    answer = web.get(address, headers=headers)
    body = body_of(answer)
    assert time.monotonic() - began < SLOW_S, "slow"
    assert len(body) < BIG or answer.has_header("Content-Disposition"), len(body)
    assert answer.status_code < 500
    assert answer["X-Content-Type-Options"] == "nosniff"
    if not answer["Content-Type"].startswith("text/html"):
        _a_file_or_data(answer, body)
        return MARK.encode() in body
    page = Page(body.decode())
    ours = 0
    # The report as one file: its policy names each of its scripts
    if answer.has_header("Content-Disposition"):
        assert "sandbox" in answer["Content-Security-Policy"]
        ours = body.count(b"&#x27;sha256-")
        assert ours == 5
    assert page.wrong == ["inline script []"] * ours and SCRIPT.encode() not in body, page.wrong
    return page.shown > 0


def _a_file_or_data(answer, body: bytes) -> None:
    kind = answer["Content-Type"].partition(";")[0]
    if answer.has_header("Content-Disposition"):
        assert answer["Content-Disposition"].startswith("attachment")
        assert "sandbox" in answer["Content-Security-Policy"]
        assert "\n" not in answer["Content-Disposition"]
    elif kind not in ("text/plain", "image/webp"):
        assert kind in ("application/json", "application/problem+json"), kind
        json.loads(body)
    if kind == "text/csv" and b"'Test Type" not in body:
        _no_formula(body.decode())
    elif kind == "text/csv":  # IOmeter's, which knows no quotes
        lines = body.decode().split("\r\n")
        assert not any(CONTROL.search(line) or line.startswith(("=", "+", "@")) for line in lines)


def _no_formula(text: str, for_eyes: bool = True) -> None:
    for line in list(csv.reader(io.StringIO(text)))[1:]:
        for cell in line:
            assert not cell.startswith(FORMULA_STARTS) or _number(cell), cell[:60]
            assert not for_eyes or not CONTROL.search(cell)


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_the_api_gives_data_only(rows, owner, team):
    client = APIClient()
    client.force_authenticate(team.members.get(username="root"))
    wrong = []
    for prefix, action, noun in sorted({(p, a, n) for p, a, m, n in ACTIONS if m == "get"}):
        path = f"/api/{prefix}/"
        try:
            if action != "list":
                path += f"{row_of(noun, rows)}/"
                path += "" if action == "retrieve" else f"{action.replace('_', '-')}/"
            # Verdicts are of campaigns that are named, and in sentences with their names in them; a history is a run's.
            if noun == "verdict":
                path += f"?campaign={rows.campaign.pk}"
            if prefix == "history":
                path += f"?run={row_of('run', rows)}"
            _ask(client, path)
        except Exception as error:
            wrong.append(f"{path}: {type(error).__name__}: {str(error)[:300]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("noun", ["results", "series-table"])
def test_no_formula_is_in_the_long_tables(rows, owner, team, noun):
    client = APIClient()
    client.force_authenticate(team.members.get(username="root"))
    answer = client.get(f"/api/{noun}/", {"format": "csv"})
    assert answer.status_code == 200 and answer["Content-Type"].startswith("text/csv")
    # A figure's words were made plain before they were stored (runs/artifact_figures.py); programs get them as such.
    _no_formula(body_of(answer).decode(), for_eyes=False)


def _ask(client: APIClient, path: str) -> None:
    answer = client.get(path)
    # A star is somebody's own; a workload of another tool has no .icf, which is said as data too.
    expected = 404 if "/stars/" in path[4:-1] else 409 if path.endswith("/icf/") else 200
    assert answer.status_code == expected, answer
    assert answer["X-Content-Type-Options"] == "nosniff"
    body = body_of(answer)
    if answer.has_header("Content-Disposition"):
        assert answer["Content-Disposition"].startswith("attachment")
        assert "sandbox" in answer["Content-Security-Policy"]
        return
    assert answer["Content-Type"] in ("application/json", "application/problem+json")
    json.loads(body)
    assert b"\x1b" not in body and b"\0" not in body


def test_the_walk_sees_what_it_is_about(rows, owner):
    """A page that did show a host's words as they are would be noticed."""
    assert Page(f"<p>{SCRIPT}</p>").wrong and Page(f"<p title='{MARK}' {MARK}=1>").wrong
    assert Page(f'<a href="javascript:{MARK}()">x</a>').wrong
    assert not Page("<p>&lt;script&gt;</p>").wrong
