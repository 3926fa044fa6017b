"""Findings on pages: the sentence, its numbers' sources, dismissed with and without JavaScript, and for guests."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from benchlab.analysis import finding
from benchlab.analysis.finding import Number
from benchlab.findings import storing
from benchlab.findings.models import Finding
from benchlab.sharing import links
from benchlab.sharing.models import Share
from tests.findings.conftest import cached

pytestmark = pytest.mark.django_db
SAYS = "90 % of what it read came from a cache"
NOTE = "The ARC <b>is</b> what we measure."


@pytest.fixture
def found(lab) -> Finding:
    storing.find_for_attempts([lab.attempt.pk])
    return Finding.objects.get()


def text(client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return answer.content.decode()


def run_page(lab) -> str:
    return f"/runs/{lab.run.pk}/"


def test_a_run_shows_it_above_its_numbers(web, lab, found):
    shown = text(web, run_page(lab))
    assert shown.index(SAYS) < shown.index('id="numbers"')
    assert '<span class="badge badge-doubt">Doubt</span>' in shown
    artifact = lab.attempt.artifacts.get(name="fio.json")
    assert f'<a href="/artifacts/{artifact.pk}/lines/?line=1#L1">400 MB/s</a>' in shown
    assert (
        f'<a href="/runs/{lab.run.pk}/?attempt=1#devices">40.0 MB/s</a>' in shown
        or "40 MB/s" in shown
    )
    assert 'href="/docs/method/#read-from-a-cache"' in shown


@pytest.mark.parametrize(
    "page", ["/campaigns/{c}/", "/campaigns/{c}/report/", "/compare/?campaign={c}"]
)
def test_a_campaign_a_report_and_a_comparison_show_it(web, lab, found, page):
    shown = text(web, page.format(c=lab.campaign.pk))
    assert SAYS in shown and f'href="/runs/{lab.run.pk}/?attempt=1"' in shown


def test_many_of_one_kind_are_a_line(web, lab, found):
    for attempt in lab.attempts[1:]:
        cached(attempt)
        storing.find_for_attempts([attempt.pk])
    shown = text(web, f"/campaigns/{lab.campaign.pk}/")
    assert "8 findings in 8 runs, such as" in shown and "All 8" in shown


def test_of_a_run_that_was_repeated_the_last_attempt_counts(web, lab, found):
    newer = lab.attempt
    newer.pk, newer.number = None, 2
    newer.save()
    assert SAYS not in text(web, f"/campaigns/{lab.campaign.pk}/")
    assert SAYS in text(web, f"{run_page(lab)}?attempt=1")
    assert SAYS not in text(web, run_page(lab))


def test_between_set_ups_the_runs_are_named(web, lab):
    Finding.objects.create(
        campaign=lab.campaign, workload=lab.load, kind="gone_kind", says="one overtakes two <at> 4", severity="note",
        runs=[lab.run.pk],
    )  # fmt: skip
    shown = text(web, f"/campaigns/{lab.campaign.pk}/")
    assert "Gone kind:</strong> one overtakes two &lt;at&gt; 4." in shown
    assert f'<a href="/runs/{lab.run.pk}/">{lab.run.pk}</a>' in shown
    other = f"/compare/?campaign={lab.campaign.pk}&topology={lab.attempts[-1].run.topology_id}"
    assert "overtakes" not in text(web, other), "it is about a run that is not shown"
    assert "overtakes" in text(web, f"/compare/?campaign={lab.campaign.pk}")


def test_doubts_come_first(web, lab, found):
    Finding.objects.create(
        campaign=lab.campaign,
        workload=lab.load,
        kind="k",
        says="one overtakes two",
        severity="note",
        runs=[],
    )
    shown = text(web, f"/campaigns/{lab.campaign.pk}/")
    assert shown.index(SAYS) < shown.index("one overtakes two")


def test_dismissed_without_javascript_and_taken_back(web, lab, found):
    shown = text(web, run_page(lab))
    assert f'action="/findings/{found.pk}/dismiss/"' in shown
    answer = web.post(f"/findings/{found.pk}/dismiss/", {"note": NOTE, "on": "run"})
    assert answer["Location"] == f"/runs/{lab.run.pk}/?attempt=1#findings"
    shown = text(web, run_page(lab))
    assert (
        "1 dismissed" in shown
        and "by alice: The ARC &lt;b&gt;is&lt;/b&gt; what we measure." in shown
    )
    assert SAYS in text(web, f"/campaigns/{lab.campaign.pk}/").partition("1 dismissed")[2]
    answer = web.post(f"/findings/{found.pk}/take-back/", {"note": "no", "on": "campaign"})
    assert answer["Location"] == f"/campaigns/{lab.campaign.pk}/#findings"
    shown = text(web, run_page(lab))
    assert "1 dismissed" not in shown and "taken back: no" in shown
    refused = web.post(f"/findings/{found.pk}/dismiss/", {"note": " ", "on": "campaign"})
    assert refused["Location"] == f"/campaigns/{lab.campaign.pk}/", "its top, where that is told"


def test_dismissed_with_htmx_the_line_is_put_in_its_place(htmx, lab, found):
    answer = htmx.post(
        f"/findings/{found.pk}/dismiss/", {"note": NOTE, "on": "run"}
    ).content.decode()
    assert answer.strip().startswith(f'<li id="finding-{found.pk}">') and "by alice" in answer
    refused = htmx.post(f"/findings/{found.pk}/take-back/", {"note": " "}).content.decode()
    assert "Write something first." in refused and 'role="alert"' in refused
    found.refresh_from_db()
    assert found.dismissed_at


def test_a_viewer_sees_no_form_and_is_refused(viewer, lab, found):
    client = Client()
    client.force_login(viewer)
    shown = text(client, run_page(lab))
    assert SAYS in shown and "/dismiss/" not in shown
    assert client.post(f"/findings/{found.pk}/dismiss/", {"note": "x"}).status_code == 403


def test_another_team_finds_none(other_web, found):
    assert other_web.post(f"/findings/{found.pk}/dismiss/", {"note": "x"}).status_code == 404
    assert other_web.get(f"/findings/{found.pk}/dismiss/").status_code in (403, 404, 405)


# Guests


def link(lab, kind: str, pk: int | None = None, query: str = "", hide: bool = True) -> str:
    until = timezone.now() + timedelta(days=1)
    token = f"token-{kind}-{hide}"
    Share.objects.create(
        team=lab.team, kind=kind, object_id=pk, name=kind, query=query, expires_at=until, hide_hosts=hide,
        digest=links.token_digest(token),
    )  # fmt: skip
    return f"/s/{token}/"


@pytest.mark.parametrize("kind", ["run", "campaign", "report", "comparison"])
def test_a_guest_reads_it_and_nothing_of_the_team(lab, found, kind):
    found.says = f"{SAYS} on {lab.host.name}"
    found.dismissed_at, found.dismissed_by, found.note = timezone.now(), lab.user, "known to us"
    found.save()
    pk = lab.run.pk if kind == "run" else None if kind == "comparison" else lab.campaign.pk
    shown = text(Client(), link(lab, kind, pk, f"campaign={lab.campaign.pk}"))
    if kind == "report":
        assert "1 finding was dismissed by the team." in shown and SAYS not in shown
    else:
        assert f"{SAYS} on host A" in shown and "1 dismissed" in shown
    for word in (
        "alice",
        "known to us",
        lab.host.name,
        "/dismiss/",
        "/take-back/",
        "/findings/",
        "#devices",
    ):
        assert word not in shown, word


def test_a_report_and_its_file_count_the_dismissed_and_name_nobody(web, lab, found):
    web.post(f"/findings/{found.pk}/dismiss/", {"note": NOTE})
    for page in ("report/", "report.html"):
        shown = text(web, f"/campaigns/{lab.campaign.pk}/{page}")
        assert "1 finding was " in shown and SAYS not in shown, page
        assert "what we measure" not in shown and "1 dismissed" not in shown, page


def test_a_guest_of_a_part_reads_nothing_between_set_ups(lab):
    Finding.objects.create(
        campaign=lab.campaign,
        workload=lab.load,
        kind="k",
        says="one overtakes two",
        severity="note",
        runs=[],
    )
    part = f"campaign={lab.campaign.pk}&topology={lab.run.topology_id}"
    assert "overtakes" not in text(Client(), link(lab, "comparison", query=part))
    assert "overtakes" not in text(Client(), link(lab, "run", lab.run.pk))
    assert "overtakes" in text(Client(), link(lab, "campaign", lab.campaign.pk))


PAGES = {
    "campaign": "/campaigns/{campaign}/",
    "report": "/campaigns/{campaign}/report/",
    "comparison": "/compare/?campaign={campaign}",
    "run": "/runs/{run}/",
    "history": "/runs/{run}/history/",
    "guest's campaign": "campaign",
    "guest's report": "report",
    "guest's comparison": "comparison",
    "guest's run": "run",
}


def address(lab, what: str) -> str:
    if not what.startswith("guest's "):
        return PAGES[what].format(campaign=lab.campaign.pk, run=lab.run.pk)
    kind = PAGES[what]
    pk = lab.run.pk if kind == "run" else None if kind == "comparison" else lab.campaign.pk
    return link(lab, kind, pk, f"campaign={lab.campaign.pk}")


def many(lab) -> None:
    """Of every attempt, and between the lines: noted, dismissed, and neither."""
    for attempt in lab.attempts:
        for number in range(4):
            Finding.objects.create(
                campaign=lab.campaign, attempt=attempt, kind="cached_read", about=f"{number}", says=SAYS,
                severity="doubt", runs=[attempt.run_id],
                numbers={"read": asdict(Number(4e8, "B/s", "read, by the tool", figure="iops"))},
                dismissed_at=timezone.now() if number % 2 else None, dismissed_by=lab.user if number % 2 else None,
                note=NOTE if number % 2 else "",
            )  # fmt: skip
    for number in range(8):
        Finding.objects.create(
            campaign=lab.campaign, workload=lab.load, kind="overtakes", about=f"{number}", says="one overtakes two",
            severity="note", runs=[one.run_id for one in lab.attempts],
        )  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("what", PAGES)
def test_the_queries_do_not_grow_with_the_findings(
    web, lab, found, what, django_assert_max_num_queries
):
    page = address(lab, what)
    text(web, page)
    with django_assert_max_num_queries(60) as few:
        text(web, page)
    many(lab)
    with django_assert_max_num_queries(len(few)):
        text(web, page)


@pytest.mark.parametrize("what", PAGES)
def test_a_view_looks_for_no_finding_and_stores_none(web, lab, found, what, monkeypatch):
    """They are found once, by a worker: fifty viewers cost fifty readings of rows."""
    many(lab)
    monkeypatch.setattr(finding.Kind, "applies", None)
    for look in ("find_for_attempts", "_store_sets", "findings_of_run", "findings_of_lines"):
        monkeypatch.setattr(storing, look, None)
    before = list(Finding.objects.order_by("pk").values())
    assert SAYS in text(web, address(lab, what)) or what == "history"
    assert list(Finding.objects.order_by("pk").values()) == before
