"""Reports as PDF and Markdown with pictures: what is in them, who gets them, what is said where there is none."""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from django.conf import settings as configured
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone
from markdown_it import MarkdownIt

from benchlab.campaigns.models import Campaign
from benchlab.runs.models import StepLog
from benchlab.sharing import chromium, report_files
from benchlab.sharing.models import MadeReport, SavedView
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role
from benchlab.workers import messages
from tests.browser.test_report_file import texts_of
from tests.charts import made
from tests.rig.fixtures import refuse
from tests.sharing.test_discussion import member

pytestmark = pytest.mark.django_db
HOSTILE = (
    "# no heading [x](http://evil.example) <img src=x onerror=alert(1)> | a `b` ![y](z) 1. one"
)


@pytest.fixture(autouse=True)
def nudges(monkeypatch) -> list[tuple[str, list[int]]]:
    sent: list[tuple[str, list[int]]] = []
    monkeypatch.setattr(messages, "after_commit", lambda task, pks: sent.append((task, list(pks))))
    return sent


@pytest.fixture
def campaign(team, user):
    where, found, load = made.host(team), made.campaign(team), made.workload(team)
    found.question = HOSTILE
    found.save()
    for name in ("LVM 64 KiB", f"raw | {HOSTILE[:50]}"):
        made.swept(found, where, made.topology(team, name), load, depths=(1, 4, 16))
    layout = found.layouts.order_by("pk").first()
    StepLog.objects.create(
        layout=layout,
        kind="apply",
        argv=["lvcreate", "-n", "it's", "bl1"],
        says="Make it",
        exit_code=0,
    )
    return found


@pytest.fixture
def view(team, user, campaign):
    other = made.campaign(team, "Another day")
    made.swept(
        other,
        made.host(team, "vm-10"),
        made.topology(team, "raw"),
        made.workload(team),
        depths=(1, 4),
    )
    query = f"campaign={campaign.pk}&campaign={other.pk}"
    return SavedView.objects.create(team=team, name="Two days", query=query, by=user)


@pytest.fixture
def printer() -> None:
    if not configured.CHROMIUM:
        refuse("no Chromium here; apt install chromium-headless-shell, or set BENCHLAB_CHROMIUM")


@pytest.fixture
def nowhere(settings) -> None:
    settings.CHROMIUM = ""


def ask(web, about, format: str, **more: str) -> Any:
    kind = "view" if isinstance(about, SavedView) else "campaign"
    return web.post(reverse(f"{kind}-report-made", args=[about.pk]), {"format": format, **more})


def fetched(web, row: MadeReport | None = None) -> Any:
    row = row or MadeReport.objects.first()
    assert row is not None
    return web.get(reverse("made-report", args=[row.pk]))


def files_of(answer) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def tokens(text: str) -> list[Any]:
    """Every token of its Markdown, those inside of lines too."""
    found = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    return [part for token in found for part in (token, *(token.children or ()))]


@pytest.mark.slow
@pytest.mark.parametrize("about", ["campaign", "view"])
def test_markdown_refers_to_what_is_in_the_archive(request, web, printer, about):
    subject = request.getfixturevalue(about)
    assert ask(web, subject, "markdown", numbers="1").status_code == 302
    report_files.make_waiting_reports()
    answer = fetched(web)
    assert answer["Content-Type"] == "application/zip"
    files = files_of(answer)
    text = files.pop("report.md").decode()
    parts = tokens(text)
    told = [one.attrs["src"] for one in parts if one.type == "image"]
    links = [one.attrs["href"] for one in parts if one.type == "link_open"]
    local = {one for one in (*told, *links) if not one.startswith("http")}
    assert local == set(files) and len(told) >= 1 and "numbers.csv" in local
    assert not any("evil" in one for one in links)
    runs = subject.runs.count() if about == "campaign" else 18 + 6
    assert len(files["numbers.csv"].decode().splitlines()) == 1 + runs
    campaign = request.getfixturevalue("campaign")
    for name, raw in files.items():
        if name.endswith(".csv"):
            continue
        words = (
            texts_of(raw)
            if name.endswith(".png")
            else {
                "all": ElementTree.fromstring(raw).findtext("{http://www.w3.org/2000/svg}desc")
                or ""
            }
        )
        said = "\n".join(words.values())
        assert f"(no. {campaign.pk})" in said and "; runs " in said and "BenchLab " in said
        assert "http://testserver/" in said and f"{timezone.now():%Y-}" in said


def markdown_of(web, campaign) -> str:
    ask(web, campaign, "markdown")
    report_files.make_waiting_reports()
    return files_of(fetched(web))["report.md"].decode()


def test_without_chromium_markdown_has_its_tables_and_says_so(web, nowhere, campaign):
    text = markdown_of(web, campaign)
    parts = tokens(text)
    assert text.startswith("> Without pictures: there is no Chromium")
    assert not any(one.type == "image" for one in parts)
    assert sum(one.type == "table_open" for one in parts) >= 3
    page = web.get(reverse("campaign-report", args=[campaign.pk])).content.decode()
    assert "Without pictures: there is no Chromium" in page
    assert "apt install chromium" in page and 'value="pdf"' not in page


def test_what_people_wrote_stays_words_in_markdown(web, nowhere, campaign):
    parts = tokens(markdown_of(web, campaign))
    heads = [parts[n + 1].content for n, one in enumerate(parts) if one.type == "heading_open"]
    assert heads[0] == "Stripe sizes"
    assert [one for one in heads if one.startswith("no heading")] == []
    assert heads.index("Findings" if "Findings" in heads else "Answers") < heads.index("Hosts")
    assert not any("evil.example" in one.attrs["href"] for one in parts if one.type == "link_open")
    assert not any(one.type in ("html_block", "html_inline") for one in parts)
    said = [one.content for one in parts if one.type == "text"]
    assert HOSTILE.partition(" [x]")[0] in "".join(said)
    commands = [one.content for one in parts if one.type == "fence"]
    assert "lvcreate -n 'it'\"'\"'s' bl1\n" in "".join(commands)


def test_without_chromium_no_pdf_is_promised(web, nowhere, campaign):
    answer = web.post(
        reverse("campaign-report-made", args=[campaign.pk]), {"format": "pdf"}, follow=True
    )
    assert "Chromium is not installed: install it" in answer.content.decode()
    assert not MadeReport.objects.exists()


def test_a_worker_without_chromium_says_what_is_missing(web, settings, campaign):
    settings.CHROMIUM = "/somewhere/chromium"
    ask(web, campaign, "pdf")
    settings.CHROMIUM = ""
    report_files.make_waiting_reports()
    row = MadeReport.objects.get()
    assert "apt install chromium" in row.trouble and row.is_ready and not row.page
    page = web.get(reverse("campaign-report", args=[campaign.pk])).content.decode()
    assert "could not be made. Chromium is not installed" in page
    assert fetched(web).status_code == 404


@pytest.mark.slow
def test_a_pdf_has_title_answers_first_pages_and_where_it_is_from(web, printer, campaign, tmp_path):
    ask(web, campaign, "pdf")
    page = web.get(reverse("campaign-report", args=[campaign.pk])).content.decode()
    assert "PDF: being made" in page and 'hx-trigger="every 2s"' in page
    report_files.make_waiting_reports()
    part = web.get(reverse("campaign-report-made", args=[campaign.pk])).content.decode()
    assert f"campaign-{campaign.pk}-report.pdf" in part and "hx-trigger" not in part
    answer = fetched(web)
    assert answer["Content-Type"] == "application/pdf" and answer.content.startswith(b"%PDF-")
    for words in (f"(no. {campaign.pk}); runs ", f"http://testserver/campaigns/{campaign.pk}/"):
        assert words.encode("utf-16-be").hex().upper().encode() in answer.content
    if not shutil.which("pdftotext"):
        return
    kept = tmp_path / "report.pdf"
    kept.write_bytes(answer.content)
    pages = _text(kept).split("\f")[:-1]
    assert len(pages) > 2 and "Stripe sizes" in pages[0].splitlines()[0]
    for number, text in enumerate(pages, 1):
        assert f"{number} of {len(pages)}" in text and f"/campaigns/{campaign.pk}/" in text
    whole = "".join(pages)
    assert whole.index("Answers") < whole.index("Hosts") < whole.index("Method")
    assert "lvcreate -n" in whole and "In flight" in whole  # the last column of a wide table
    facts = subprocess.run(["pdfinfo", kept], capture_output=True, text=True, check=True).stdout
    assert "Title:           Stripe sizes: report" in facts and "Creator:         BenchLab" in facts


def _text(pdf: Path) -> str:
    done = subprocess.run(
        ["pdftotext", "-layout", pdf, "-"], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.slow
def test_a_page_in_chromium_reaches_nothing(printer, tmp_path):
    """Not the network, no file, not the loopback; and it runs nobody's script where its policy says so."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    html = f"""<!DOCTYPE html><title>x</title><body><iframe src="{secret.as_uri()}"></iframe>
    <img src="http://127.0.0.1:1/x.png"><img src="https://example.org/x.png"></body>"""
    with chromium.open_page(html.encode()) as page:
        reached = page.evaluate(
            """Promise.all(["http://report.invalid/", "http://127.0.0.1:1/", "file:///etc/passwd", "https://example.org/"]
            .map((url) => fetch(url).then((one) => one.status, () => "refused")))"""
        )
        assert reached == ["refused"] * 4
        assert page.evaluate("[...document.images].every((one) => !one.naturalWidth)")
        with pytest.raises(chromium.ChromiumError, match="no such thing"):
            page.evaluate("Promise.reject(new Error('no such thing'))")


@pytest.mark.slow
def test_a_page_that_never_ends_is_given_up(printer, monkeypatch):
    monkeypatch.setattr(chromium, "MAX_SECONDS", 6)
    late = pytest.raises(chromium.ChromiumError, match="not done after 6 s")
    with chromium.open_page(b"<!DOCTYPE html><title>x</title>") as page, late:
        page.evaluate("new Promise(() => 0)")


def test_a_program_that_is_no_chromium_is_told(web, settings, campaign):
    settings.CHROMIUM = "/bin/false"
    ask(web, campaign, "pdf")
    report_files.make_waiting_reports()
    assert MadeReport.objects.get().trouble.startswith("Chromium ended")


def test_asking_twice_is_asking_once(web, nowhere, campaign, nudges):
    for _ in range(2):
        ask(web, campaign, "markdown")
    assert MadeReport.objects.count() == 1 and len(nudges) == 1
    ask(web, campaign, "markdown", numbers="1")
    assert MadeReport.objects.count() == 2


def test_nobody_queues_more_than_a_few(web, team, nowhere, campaign):
    for number in range(report_files.MOST_WAITING + 1):
        other = made.campaign(team, f"No. {number}")
        answer = ask(web, other, "markdown")
    assert MadeReport.objects.count() == report_files.MOST_WAITING
    page = web.get(answer["Location"]).content.decode()
    assert "being made for you already" in page


def test_teams_take_turns(user, team, campaign):
    other_team = Team.objects.create(name="Others")
    theirs = made.campaign(other_team, "Theirs")

    def waits(of: Campaign) -> MadeReport:
        return MadeReport.objects.create(
            campaign=of, shown=[of.pk], format="markdown", page=b"", by=user
        )

    mine = [waits(campaign) for _ in range(3)]
    last = waits(theirs)
    order = []
    while (row := report_files.next_in_turn()) is not None:
        order.append(row.pk)
        MadeReport.objects.filter(pk=row.pk).update(made_at=timezone.now())
    assert order == [mine[0].pk, last.pk, mine[1].pk, mine[2].pk]


def test_an_unknown_format_is_refused(web, campaign):
    page = web.get(ask(web, campaign, "docx")["Location"]).content.decode()
    assert "&#x27;docx&#x27; is not a format" in page and not MadeReport.objects.exists()


def test_only_who_asked_gets_it_and_only_while_they_see_it(
    web, team, user, nowhere, campaign, view
):
    ask(web, view, "markdown")
    report_files.make_waiting_reports()
    assert fetched(web).status_code == 200
    assert fetched(member(team, "olga", Role.OWNER)).status_code == 404
    campaign.deleted_at = timezone.now()
    campaign.save()
    assert fetched(web).status_code == 404
    type(campaign).even_deleted.filter(pk=campaign.pk).update(deleted_at=None)
    assert fetched(web).status_code == 200
    Membership.objects.filter(user=user).delete()
    assert fetched(web).status_code in (403, 404)


def test_a_dead_workers_report_is_made_again_and_not_for_ever(web, nowhere, campaign):
    ask(web, campaign, "markdown")
    MadeReport.objects.update(tries=report_files.MOST_TRIES - 1)
    report_files.make_waiting_reports()
    assert MadeReport.objects.get().content
    MadeReport.objects.all().delete()
    ask(web, campaign, "markdown")
    MadeReport.objects.update(tries=report_files.MOST_TRIES)
    report_files.make_waiting_reports()
    assert "crashed 3 times" in MadeReport.objects.get().trouble


def test_the_sweep_sends_what_was_lost_and_forgets_after_a_day(web, nowhere, campaign, monkeypatch):
    sent: list[Any] = []
    monkeypatch.setattr(messages, "send", lambda *told: sent.append(told))
    ask(web, campaign, "markdown")
    report_files.sweep_reports()
    assert sent == []
    MadeReport.objects.update(asked_at=timezone.now() - timedelta(seconds=20))
    report_files.sweep_reports()
    assert sent == [(report_files.MAKE, MadeReport.objects.get().pk)]
    MadeReport.objects.update(asked_at=timezone.now() - timedelta(hours=25))
    report_files.sweep_reports()
    assert not MadeReport.objects.exists()


# Saved comparisons


def test_a_comparisons_report_has_what_a_campaigns_has(web, view, campaign):
    page = web.get(reverse("view-report", args=[view.pk])).content.decode()
    for words in (
        "<h1>Two days</h1>",
        "What is compared",
        "Another day",
        "vm-10",
        "What else differs",
        "Method",
    ):
        assert words in page, words
    file = web.get(reverse("view-report-file", args=[view.pk]))
    assert f"comparison-{view.pk}-report.html" in file["Content-Disposition"]
    assert len(file.content) < 3_000_000 and b"data:text/csv" not in file.content
    full = web.get(reverse("view-report-file", args=[view.pk]), {"numbers": "1"})
    assert b"data:text/csv" in full.content
    assert "<form" not in file.content.decode().partition("<body")[2].partition("<script")[0]


def test_a_comparisons_texts_are_its_own(web, view, campaign):
    for place in ("opening", "closing"):
        page = web.get(reverse("view-report", args=[view.pk])).content.decode()
        seen = (
            page.partition(f"/report/{place}/")[2]
            .partition('name="seen" value="')[2]
            .partition('"')[0]
        )
        sent = {"text": f"Said at {place}.", "seen": seen}
        assert web.post(reverse("view-report-text", args=[view.pk, place]), sent).status_code == 302
    assert "Said at opening." in web.get(reverse("view-report", args=[view.pk])).content.decode()
    own = web.get(reverse("campaign-report", args=[campaign.pk])).content.decode()
    assert "Said at" not in own


def test_a_personal_comparisons_report_is_nobody_elses(team, view):
    SavedView.objects.update(for_team=False)
    other = member(team, "olga", Role.OWNER)
    for name in ("view-report", "view-report-file", "view-report-made"):
        assert other.get(reverse(name, args=[view.pk])).status_code == 404
    text = reverse("view-report-text", args=[view.pk, "opening"])
    assert other.post(text, {"text": "x"}).status_code == 404


def test_a_comparison_that_lost_a_campaign_says_so(web, view, campaign):
    campaign.deleted_at = timezone.now()
    campaign.save()
    page = web.get(reverse("view-report", args=[view.pk])).content.decode()
    assert "1 campaign of it is not there any more." in page and "Another day" in page


def test_a_stranger_gets_nothing(web, view, campaign, db):
    User.objects.create_user("mallory", password="x")
    from django.test import Client

    stranger = Client()
    stranger.force_login(User.objects.get(username="mallory"))
    for kind, pk in (("campaign", campaign.pk), ("view", view.pk)):
        assert stranger.get(reverse(f"{kind}-report", args=[pk])).status_code in (403, 404)
        assert stranger.post(
            reverse(f"{kind}-report-made", args=[pk]), {"format": "pdf"}
        ).status_code in (403, 404)
