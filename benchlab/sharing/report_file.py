# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML file that fetches nothing: style, font, charts and figures are in it.

Its policy allows the scripts that are in it, by their hashes, and no address at all: it shows the same in ten years,
without a network, and what somebody wrote into a question cannot run there.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from django.contrib.staticfiles import finders
from django.http import HttpRequest, QueryDict
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

import benchlab
from benchlab.charts import request_params, tables
from benchlab.charts.cards import Card
from benchlab.charts.figure import figure_json
from benchlab.charts.figure_views import build_lines_figure, origin_text
from benchlab.charts.queries import Group
from benchlab.sharing import raw_data, report
from benchlab.sharing.report import Subject

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
