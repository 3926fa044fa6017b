# SPDX-License-Identifier: Apache-2.0
"""Reports as files: HTML at once; PDF and Markdown with pictures by a worker, one at a time, kept for a day.

The HTML file fetches nothing: style, font, charts and figures are in it. Its policy allows the scripts that are in it,
by their hashes, and no address at all: it shows the same in ten years, without a network, and what somebody wrote into
a question cannot run there. A worker makes the others of that file as it was when somebody asked: what they saw is what
they get, and it needs to know neither who they are nor what they may see. Without Chromium Markdown has no pictures,
and PDF is none.
"""

from __future__ import annotations

import base64
import hashlib
import io
import logging
import re
import secrets
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.contrib.staticfiles import finders
from django.core.exceptions import ValidationError
from django.db.models import F, Max, Min, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest, QueryDict
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

import benchlab
from benchlab.campaigns.models import Campaign
from benchlab.charts import request_params, tables
from benchlab.charts.cards import Card
from benchlab.charts.figure import figure_json
from benchlab.charts.figure_views import build_lines_figure, origin_text
from benchlab.charts.queries import Group
from benchlab.sharing import chromium, markdown, raw_data, report
from benchlab.sharing.models import MadeReport, SavedView
from benchlab.sharing.report import Subject
from benchlab.workers import messages
from benchlab.workers.lease import Lock, lease

SCRIPTS = (
    "vendor/plotly/plotly-cartesian.min.js",
    "pictures.js",
    "crosshair.js",
    "charts.js",
    "sharing.js",
)
FONT = re.compile(r'url\("(vendor/[^"]+\.woff2)"\)')
# Plotly sets its own styles as it draws, and makes pictures from blobs.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
    "base-uri 'none'; form-action 'none'; script-src {scripts}"
)


@dataclass(frozen=True, slots=True)
class NoRoles:
    """The file's reader, who has no role and no permissions."""

    operator: frozenset[int] = frozenset()


def render_file(request: HttpRequest, subject: Subject, *, attached: bool) -> str:
    """Return the whole file. ?metric= and ?moment= as on the campaign's page; `attached` adds each run's numbers."""
    return _render_page(request, report.member_context(request, subject), attached=attached)


def stream_with_raw(
    request: HttpRequest, subject: Subject, *, attached: bool
) -> Callable[[], Iterator[bytes]]:
    """The same with what the tools wrote, as far as it has room for that, and a sentence on what it has not. All but
    the raw output is made at once; that is, by who takes the parts, as fast as they are taken."""
    context = report.member_context(request, subject)
    raw = report.raw_artifacts(request, subject, context["lines"])
    rows, output = (
        raw_data.readable_artifacts(request.user, raw),
        raw_data.raw_output_of(request.user, raw),
    )
    if not output.files:
        whole = _render_page(request, context, attached=attached).encode()
        return lambda: iter([whole])
    # nobody who wrote a text of the report can know it
    mark = secrets.token_hex(16)
    parts = _render_page(request, context, attached=attached, mark=mark).split(mark)
    head, middle, tail = (part.encode() for part in parts)
    origin = _origin(request)
    where = {
        "known": output,
        "archive": origin + subject.raw_url,
        "listed": [origin + address for address in report.artifact_list_urls(request, subject)],
    }

    def stream() -> Iterator[bytes]:
        room = raw_data.EmbedBudget()
        yield head
        yield from raw_data.embed_archive(rows, room)
        yield middle
        yield render_to_string("sharing/_raw_in_file.html", {"room": room, **where}).encode()
        yield tail

    return stream


def _render_page(
    request: HttpRequest, context: dict[str, Any], *, attached: bool, mark: str = ""
) -> str:
    """`mark` stands where the ZIP of raw output and what is said of it come, where there is one."""
    full_context = context | {"in_file": True, "guest": True, "may": NoRoles()}
    subject, cards, lines = full_context["subject"], full_context["cards"], full_context["lines"]
    origin = _origin(request)
    body = render_to_string("sharing/_report.html", full_context, request)
    scripts = [_script(name) for name in SCRIPTS]
    return render_to_string(
        "sharing/report_file.html",
        {
            "subject": subject,
            "about": origin_text(lines),
            "body": mark_safe(_absolute(body, origin)),  # noqa: S308  # ours, escaped already
            "style": _style(),
            "scripts": scripts,
            "policy": POLICY.format(scripts=" ".join(map(_csp_hash, scripts))),
            "figures": [(card.dom_id, _card_figures(card, lines)) for card in cards],
            "raw": mark,
            "numbers": _numbers_url(lines) if attached else "",
            "address": origin + subject.home_url,
            "made": timezone.now(),
            "version": benchlab.__version__,
        },
    )


def _origin(request: HttpRequest) -> str:
    return request.build_absolute_uri("/").rstrip("/")


def _absolute(html: str, origin: str) -> str:
    """Make links absolute, so that they lead to the lab from anywhere. Quotes in text are escaped and cannot match."""
    return html.replace('href="/', f'href="{origin}/')


def _card_figures(card: Card, lines: Iterable[Group]) -> SafeString:
    """Return JSON of the card's figures by metric, the default one first. It has no `<`, for it is inside a script."""
    query = QueryDict(urlsplit(card.figure_url).query, mutable=True)
    metrics = dict.fromkeys([card.chosen_metric, *(name for name, _ in card.main_choices)])
    figures: dict[str, bytes] = {}
    for metric in metrics:
        query["metric"] = metric
        groups = request_params.line_filter(query).select_styled(list(lines))
        title = " and ".join(dict.fromkeys(line.campaign_name for line in groups))
        figures[metric] = figure_json(
            build_lines_figure(title, groups, request_params.chart_choice(query))
        )
    return _figures_json(figures)


def _figures_json(figures: Mapping[str, bytes]) -> SafeString:
    pairs = b",".join(orjson.dumps(name) + b":" + figure for name, figure in figures.items())
    text = (b"{" + pairs + b"}").decode().replace("<", "\\u003c")
    return mark_safe(text)  # noqa: S308  # JSON without a tag


def _numbers_url(lines: Iterable[Group]) -> str:
    """Return every run's numbers as a data: URL of CSV."""
    text = "".join(tables.campaign_csv_lines(list(lines)))
    return "data:text/csv;base64," + base64.b64encode(text.encode()).decode()


@cache
def _script(name: str) -> SafeString:
    """Return a script element. Raises ValueError for a source that would end its own element."""
    text = _static_source(name).decode()
    if "</script" in text.lower():
        raise ValueError(f"{name}: holds the end of a script element")
    return mark_safe(text)  # noqa: S308  # a file of this repository


def _csp_hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@cache
def _style() -> SafeString:
    """Return the stylesheet with its font embedded."""
    text = _static_source("benchlab.css").decode()
    text = FONT.sub(lambda match: f'url("{_font_url(match[1])}")', text)
    return mark_safe(text)  # noqa: S308  # a file of this repository


def _font_url(name: str) -> str:
    return f"data:font/woff2;base64,{base64.b64encode(_static_source(name)).decode()}"


def _static_source(name: str) -> bytes:
    path = finders.find(name)
    if not isinstance(path, str):
        raise FileNotFoundError(f"static file {name}")
    return Path(path).read_bytes()


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
        page=render_file(request, subject, attached=attached).encode(),
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
        return chromium.pdf(page), ""
    if not settings.CHROMIUM:
        return zip_markdown(page, [], NO_PICTURES), NO_PICTURES
    return zip_markdown(page, chromium.pictures(page), ""), ""


def zip_markdown(html: bytes, drawn: Sequence[chromium.Picture], note: str) -> bytes:
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


def _picture_link(picture: chromium.Picture) -> str:
    alt = markdown.escape_markdown(" ".join(picture.title.split())) or "Chart"
    return f"[![{alt}]({picture.name}.png)]({picture.name}.svg)"
