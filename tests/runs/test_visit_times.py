"""The time that a layout took to build and to take down, told by when it came to its phases."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from benchlab.runs.models import Layout

pytestmark = pytest.mark.django_db


def test_a_layout_tells_how_long_building_took(make_layout):
    layout, draft = make_layout(phase="done", outcome="succeeded"), make_layout(phase="draft")
    then = timezone.now()
    Layout.objects.filter(pk=layout.pk).update(
        begun_at=then + timedelta(seconds=10),
        ready_at=then + timedelta(seconds=40),
        down_at=then + timedelta(seconds=200),
        ended_at=then + timedelta(seconds=220),
    )
    layout.refresh_from_db()
    draft.refresh_from_db()
    assert (layout.build_s, layout.teardown_s) == (30.0, 20.0)
    assert (layout.visit, layout.expected_s) == (1, 20.0)
    assert (draft.begun_at, draft.build_s, draft.teardown_s) == (None, None, None)
