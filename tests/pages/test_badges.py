"""Badges begin with a capital, in every template and where their words come from the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.utils import timezone

from benchlab.runs.states import LayoutPhase
from tests.pages.test_home import disk, home, known, lab, stored, to_come, wall
from tests.topologies.plans import layer

__all__ = ["known", "lab"]

TEMPLATES = Path(__file__).parents[2] / "templates"
BADGE = re.compile(r'<span class="badge[^>]*>([^<]*)')


def lower(text: str) -> list[str]:
    return [said for said in BADGE.findall(text) if said[:1].islower()]


def test_no_template_has_one_in_lower_case():
    assert {
        path.name: found for path in TEMPLATES.rglob("*.html") if (found := lower(path.read_text()))
    } == {}


@pytest.mark.django_db
def test_none_of_home_and_of_the_wall_screen_is(web, known):
    """With first steps that are done, a plan to confirm, a host, missing disks and a stuck layout."""
    disk(known.host, "A", spare=True)
    disk(known.host, "B", spare=True, present=False)
    plan = stored([layer("lvm", data=("hdd", 2))])
    to_come(known, 2, plan=plan, planned_at=timezone.now())
    to_come(known, 1, LayoutPhase.STUCK, outcome="failed")
    for text in (home(web), wall(web)):
        found = BADGE.findall(text)
        assert {"Plan to confirm", "Disks missing"} <= set(found) and lower(text) == []
