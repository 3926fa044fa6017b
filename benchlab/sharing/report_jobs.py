# SPDX-License-Identifier: Apache-2.0
"""Reports as PDF and as Markdown with pictures: made by a worker of the report's page, one at a time, kept for a day.

The page is the HTML file as it was when somebody asked (report_file.py): what they saw is what they get, and a worker
needs to know neither who they are nor what they may see. Without Chromium Markdown has no pictures, and PDF is none.
"""

from __future__ import annotations

import base64
import io
import logging
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db.models import F, Max, Min, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import escape

from benchlab.campaigns.models import Campaign
from benchlab.charts import request_params
from benchlab.sharing import chromium, markdown, report_file
from benchlab.sharing.models import MadeReport, SavedView
from benchlab.sharing.report import Subject
from benchlab.workers import messages
from benchlab.workers.lease import Lock, lease

log = logging.getLogger(__name__)

MAKE = "benchlab.sharing.tasks.make_report"
KEEP_TIME = timedelta(days=1)
# of one person
MOST_WAITING = 3
MOST_TRIES = 3
# after that a message counts as lost
NUDGED = timedelta(seconds=10)
ENDINGS = {
    MadeReport.Format.PDF: ("pdf", "application/pdf"),
    MadeReport.Format.MARKDOWN: ("zip", "application/zip"),
}
CSV = "numbers.csv"
NO_PICTURES = "Without pictures: there is no Chromium where the worker runs. Its tables hold the same numbers."
# Resolves once every chart is drawn, to the titles of those that could not be.
DRAWN = """new Promise((done) => {
  const look = () => {
    const charts = [...document.querySelectorAll(".chart")];
    const over = charts.every((one) => one.querySelector(".main-svg, [role=status]"));
    if (!over) return setTimeout(look, 50);
    const lost = charts.filter((one) => !one.querySelector(".main-svg"));
    document.fonts.ready.then(() => done(lost.map((one) => one.dataset.chartName)));
  };
  look();
})"""
# Paper neither folds nor scrolls: open what is folded, and shrink tables that are too wide.
UNFOLDED = """
for (const one of document.querySelectorAll("details:not(.no-print)")) one.open = true;
for (const table of document.querySelectorAll("table")) {
  const room = table.parentElement.clientWidth;
  if (room && table.offsetWidth > room) table.style.zoom = room / table.offsetWidth;
}"""
FACTS = """({
  title: document.title,
  about: document.querySelector("meta[name=description]").content,
  address: document.body.dataset.address,
  software: document.querySelector("meta[name=generator]").content,
})"""
CHARTS = """[...document.querySelectorAll(".chart")].map(
  (one) => [one.id, one.dataset.chartName, one.figure.layout.title?.text ?? ""])"""
PICTURE = "pictures.encoded(document.getElementById({chart}), {format})"


@dataclass(frozen=True, slots=True)
class Picture:
    # DOM id
    chart: str
    # of its files, without the ending
    name: str
    title: str
    svg: bytes
    png: bytes


def request_report(
    request: HttpRequest, subject: Subject, format: str, *, attached: bool
) -> MadeReport:
    """Request a report; returns the one already under way for the same. Raises ValidationError."""
    by: Any = request.user
    if format not in MadeReport.Format.values:
        raise ValidationError(f"{format[:20]!r} is not a format of a report.")
    if format == MadeReport.Format.PDF and not settings.CHROMIUM:
        raise ValidationError(chromium.NOT_INSTALLED)
    query = request.META.get("QUERY_STRING", "") + ("&numbers=1" if attached else "")
    if len(query) > 2000:
        raise ValidationError("That address is too long for a report.")
    mine = MadeReport.objects.filter(by=by, made_at=None)
    same = mine.filter(**{subject.kind: subject.row}, format=format, query=query).first()
    if same is not None:
        return same
    if mine.count() >= MOST_WAITING:
        raise ValidationError(
            f"{MOST_WAITING} reports are being made for you already; wait for one of them."
        )
    job = MadeReport.objects.create(
        **{subject.kind: subject.row},
        shown=list(_shown_campaigns(request, subject)),
        format=format,
        query=query,
        by=by,
        page=report_file.render_file(request, subject, attached=attached).encode(),
    )
    messages.after_commit(MAKE, [job.pk])
    return job


def _shown_campaigns(request: HttpRequest, subject: Subject) -> Sequence[int]:
    if isinstance(subject.row, Campaign):
        return [subject.row.pk]
    return request_params.line_filter(request.GET).campaigns


def reports_of(user: AbstractBaseUser | Any, subject: Subject) -> list[MadeReport]:
    """Return the reports without their content, newest first."""
    rows = MadeReport.objects.for_user(user).filter(**{subject.kind: subject.row})
    return list(rows.defer("page", "content")[:10])


def may_still_see(user: AbstractBaseUser | Any, row: MadeReport) -> bool:
    """True if its requester still sees all that is in it."""
    visible = Campaign.objects.visible_to(user).filter(pk__in=row.shown)
    views = SavedView.objects.for_user(user)
    if row.view is not None and not views.filter(pk=row.view.pk).exists():
        return False
    return visible.count() == len(set(row.shown))


def download_name(row: MadeReport) -> tuple[str, str]:
    """Return the download's (name, type)."""
    ending, kind = ENDINGS[MadeReport.Format(row.format)]
    subject = Subject(row.campaign or row.view)  # type: ignore[arg-type]  # one of the two is there
    return f"{subject.file_stem}.{ending}", kind


def make_waiting_reports() -> None:
    """Make all waiting reports one after the other; nothing if a worker is already doing so."""
    while _waiting_reports().exists():
        with lease(0, Lock.CHROMIUM) as held:
            if not held:
                return
            while (row := next_in_turn()) is not None:
                _make_report(row)


def sweep_reports() -> None:
    """Queue reports again whose message was lost or whose worker died, and delete expired ones."""
    now = timezone.now()
    MadeReport.objects.filter(asked_at__lt=now - KEEP_TIME).delete()
    late = _waiting_reports().filter(asked_at__lt=now - NUDGED).values_list("pk", flat=True).first()
    if late is not None:
        messages.send(MAKE, late)


def _waiting_reports() -> QuerySet[MadeReport]:
    return MadeReport.objects.filter(made_at=None).order_by("pk")


def next_in_turn() -> MadeReport | None:
    """Return the oldest waiting report of the team whose last one is longest ago; None if none waits."""
    team = Coalesce("campaign__team", "view__team")
    rows = MadeReport.objects.order_by().annotate(team=team)
    ended = rows.exclude(made_at=None).values("team").annotate(last=Max("made_at"))
    last = {row["team"]: row["last"].timestamp() for row in ended}
    waiting = rows.filter(made_at=None).values("team").annotate(oldest=Min("pk"))
    turns = [(last.get(row["team"], 0.0), row["oldest"]) for row in waiting]
    return MadeReport.objects.filter(pk=min(turns)[1]).first() if turns else None


def _make_report(row: MadeReport) -> None:
    """Make the report. The lease keeps others out, so an unfinished earlier try means that its worker died."""
    mine = MadeReport.objects.filter(pk=row.pk)
    mine.update(tries=F("tries") + 1)
    outcome: dict[str, Any]
    try:
        if row.tries >= MOST_TRIES:
            raise chromium.ChromiumError(
                f"The worker crashed {MOST_TRIES} times while it made this."
            )
        content, note = _report_content(row)
        outcome = {"content": content, "size": len(content), "note": note}
    except chromium.ChromiumError as trouble:
        outcome = {"trouble": str(trouble)}
    except Exception:
        log.exception("report %s could not be made", row.pk)
        outcome = {"trouble": "BenchLab itself failed; see the worker's log."}
    mine.update(**outcome, page=b"", made_at=timezone.now())


def _report_content(row: MadeReport) -> tuple[bytes, str]:
    """Return (the file, what it lacks)."""
    page = bytes(row.page)
    if row.format == MadeReport.Format.PDF:
        return pdf(page), ""
    if not settings.CHROMIUM:
        return zip_markdown(page, [], NO_PICTURES), NO_PICTURES
    return zip_markdown(page, pictures(page), ""), ""


def pdf(html: bytes) -> bytes:
    """Return the report as PDF. Raises ChromiumError."""
    with chromium.open_page(html) as page:
        _wait_for_charts(page)
        page.evaluate(UNFOLDED)
        facts: dict[str, str] = page.evaluate(FACTS)
        printed = page.pdf(_footer(facts))
    metadata = {
        "Title": facts["title"],
        "Subject": facts["about"],
        "Keywords": facts["address"],
        "Creator": facts["software"],
        "Producer": "Chromium",
    }
    return add_metadata(printed, metadata, timezone.now())


def _wait_for_charts(page: chromium.Page) -> None:
    if lost := page.evaluate(DRAWN):
        raise chromium.ChromiumError(f"A chart could not be drawn: {', '.join(lost)}.")


def _footer(facts: Mapping[str, str]) -> str:
    """Return the footer's HTML. It is a separate document, which the page's style does not reach."""
    left_text = escape(f"{facts['software']}, {facts['address']}")
    return (
        '<div style="width:100%;margin:0 15mm;font:7pt sans-serif;color:#444;display:flex;'
        f'justify-content:space-between"><span>{left_text}</span><span><span class="pageNumber"></span> of '
        '<span class="totalPages"></span></span></div>'
    )


def pictures(html: bytes) -> list[Picture]:
    """Return each chart as SVG and PNG that state their origin. Raises ChromiumError."""
    with chromium.open_page(html) as page:
        _wait_for_charts(page)
        return [
            Picture(
                chart,
                f"charts/{number}-{_file_slug(name)}",
                title,
                *(_encode_chart(page, chart, kind) for kind in ("svg", "png")),
            )
            for number, (chart, name, title) in enumerate(page.evaluate(CHARTS), 1)
        ]


def _encode_chart(page: chromium.Page, chart: str, format: str) -> bytes:
    words = {"chart": orjson.dumps(chart).decode(), "format": orjson.dumps(format).decode()}
    return base64.b64decode(page.evaluate(PICTURE.format(**words)))


def _file_slug(name: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:60] or "chart"


def zip_markdown(html: bytes, drawn: Sequence[Picture], note: str) -> bytes:
    """Return a ZIP of report.md and the files to which it refers."""
    links = {picture.chart: _picture_link(picture) for picture in drawn}
    text = markdown.convert_page(html.decode(), links, CSV)
    head = f"> {markdown.escape_markdown(note)}\n\n" if note else ""
    files = {"report.md": (head + text.text).encode(), **text.files}
    for picture in drawn:
        files |= {f"{picture.name}.svg": picture.svg, f"{picture.name}.png": picture.png}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def _picture_link(picture: Picture) -> str:
    alt = markdown.escape_markdown(" ".join(picture.title.split())) or "Chart"
    return f"[![{alt}]({picture.name}.png)]({picture.name}.svg)"


TRAILER = re.compile(rb"trailer\s*<<(.*?)>>\s*startxref\s+(\d+)\s+%%EOF\s*$", re.S)
SIZE = re.compile(rb"/Size\s+(\d+)")
ROOT = re.compile(rb"/Root\s+(\d+\s+\d+\s+R)")


def add_metadata(pdf: bytes, facts_by_name: Mapping[str, str], created: datetime) -> bytes:
    """Add facts (Title, Subject, Creator …) to a PDF. Raises ValueError if it does not end like one of Chromium's."""
    end = TRAILER.search(pdf, max(0, len(pdf) - 2048))
    size, root = (SIZE.search(end[1]), ROOT.search(end[1])) if end else (None, None)
    if end is None or size is None or root is None:
        raise ValueError("a PDF without a trailer")
    number = int(size[1])
    facts = b"".join(
        b"/%s %s " % (key.encode(), _pdf_string(value)) for key, value in facts_by_name.items()
    )
    date = created.astimezone(UTC).strftime("D:%Y%m%d%H%M%SZ").encode()
    head = pdf if pdf.endswith(b"\n") else pdf + b"\n"
    row = b"%d 0 obj\n<<%s/CreationDate (%s)>>\nendobj\n" % (number, facts, date)
    table = b"xref\n%d 1\n%010d 00000 n \n" % (number, len(head))
    trailer = b"trailer\n<</Size %d /Root %s /Info %d 0 R /Prev %s>>\n" % (
        number + 1,
        root[1],
        number,
        end[2],
    )
    return head + row + table + trailer + b"startxref\n%d\n%%%%EOF\n" % (len(head) + len(row))


def _pdf_string(words: str) -> bytes:
    """Return a text string in hexadecimal UTF-16, which needs no escapes."""
    return b"<FEFF" + words.encode("utf-16-be", "replace").hex().upper().encode() + b">"
