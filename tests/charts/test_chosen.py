"""Campaigns to tick on pages that compare: found by words of their names, before all else where none is ticked."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest
from django.urls import reverse

from benchlab.web.lists import MAX_UNSEARCHED_CHOICES
from tests.charts import made

pytestmark = [pytest.mark.django_db, pytest.mark.parametrize("where", ["explore", "compare"])]
FIELD = 'name="pick"'


def names(answer: Any) -> list[str]:
    return [row.name for row in answer.context["campaigns"]]


def test_many_campaigns_are_found_by_words_and_ticked_ones_stay(web, team, where):
    rows = [
        made.campaign(team, f"Stripe of {number} disks") for number in range(MAX_UNSEARCHED_CHOICES)
    ]
    assert FIELD not in web.get(reverse(where)).text
    made.campaign(team, "Cache 50%")
    answer = web.get(reverse(where))
    assert FIELD in answer.text and len(names(answer)) == MAX_UNSEARCHED_CHOICES + 1
    found = web.get(reverse(where), {"pick": "DISKS 11"})
    assert names(found) == ["Stripe of 11 disks"] and 'value="DISKS 11"' in found.text
    assert names(web.get(reverse(where), {"pick": "%"})) == ["Cache 50%"]
    ticked = web.get(reverse(where), {"pick": "cache", "campaign": rows[3].pk})
    assert sorted(names(ticked)) == ["Cache 50%", "Stripe of 3 disks"]
    none = web.get(reverse(where), {"pick": "no<such>"})
    assert names(none) == [] and "None has “no<such>”." in unescape(none.text)
    assert web.get(reverse(where), {"pick": "x" * 201}).status_code == 400


def test_a_view_is_saved_without_the_words(web, lab, where):
    answer = web.get(reverse(where), {"pick": "stripe", "campaign": lab.campaign.pk})
    assert "pick=" not in answer.text.partition('name="query" value="')[2].partition('"')[0]


def test_campaigns_come_first_where_none_is_ticked(web, lab, where):
    text = web.get(reverse(where), {"x": ""}).text
    assert text.index("<legend>Campaigns") < (text.find("<legend>Axes") % len(text))
    if where == "explore":
        text = web.get(reverse(where), {"campaign": lab.campaign.pk}).text
        assert text.index("<legend>Campaigns") > text.index("<legend>Axes")


def test_explore_opens_with_the_latest_campaign(web, lab, where):
    opened = web.get(reverse(where), follow=True)
    latest = f"{reverse(where)}?campaign={lab.campaign.pk}"
    assert opened.redirect_chain == ([(latest, 302)] if where == "explore" else [])
