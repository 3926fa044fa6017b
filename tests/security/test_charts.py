"""Plotly takes some HTML in its texts: names of disks and campaigns bring none."""

from __future__ import annotations

import orjson
import pytest

from benchlab.charts.figure import figure_json
from tests.security.hostile import MARKUP


@pytest.mark.parametrize(
    "words", [MARKUP, "<a href='http://evil.example'>disk</a>", "<span style='x'>", "<A HREF=x>"]
)
def test_names_bring_no_markup_into_a_chart(words):
    figure = {"data": [{"name": words, "text": [f"{words}<br><b>1</b>"], "y": [1.0, 2.0]}],
              "layout": {"title": {"text": words}}}  # fmt: skip
    raw = figure_json(figure)
    found = orjson.loads(raw)
    kept = raw.replace(b"<br>", b"").replace(b"<b>", b"").replace(b"</b>", b"")
    assert b"<" not in kept
    assert found["data"][0]["y"] == [1.0, 2.0] and found["data"][0]["text"][0].endswith(
        "<br><b>1</b>"
    )


def test_the_figures_of_a_hostile_host(rows, owner):
    for attempt in rows.attempts[:1]:
        for name in ("devices", "cpu"):
            answer = owner.get(f"/attempts/{attempt.pk}/{name}.json")
            if answer.status_code == 200:
                assert b"<a" not in answer.content and b"<img" not in answer.content
    answer = owner.get(f"/campaigns/{rows.campaign.pk}/figure.json")
    assert b"<img" not in answer.content and b"<script" not in answer.content
