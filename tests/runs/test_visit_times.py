"""Times of layouts that were there before the migration are taken from their moves, and it can be undone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from benchlab.runs.models import Layout, Transition

pytestmark = pytest.mark.django_db(transaction=True)
BEFORE = [("runs", "0001_squashed"), ("campaigns", "0001_squashed")]
MOVES = (
    ("draft", "waiting", 0),
    ("waiting", "provisioning", 10),
    ("provisioning", "provisioning", 15),  # a note: it was taken back and is built anew
    ("provisioning", "ready", 40),
    ("ready", "tearing_down", 100),
    ("tearing_down", "stuck", 110),
    ("stuck", "tearing_down", 200),
    ("tearing_down", "done", 220),
)


def move_to(*names: tuple[str, str]) -> None:
    MigrationExecutor(connection).migrate(list(names))


def test_earlier_layouts_tell_how_long_building_took(make_layout):
    layout, draft = make_layout(phase="done", outcome="succeeded"), make_layout(phase="draft")
    then = timezone.now()
    for old, new, at in MOVES:
        row = Transition.objects.create(layout=layout, old=old, new=new)
        Transition.objects.filter(pk=row.pk).update(at=then + timedelta(seconds=at))
    Layout.objects.filter(pk=layout.pk).update(ended_at=then + timedelta(seconds=220))
    latest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    try:
        move_to(*BEFORE)
    finally:
        move_to(*latest)
    layout.refresh_from_db()
    draft.refresh_from_db()
    assert (layout.build_s, layout.teardown_s) == (30.0, 20.0)
    assert layout.begun_at == then + timedelta(seconds=10)
    assert (layout.visit, layout.expected_s) == (1, 20.0)
    assert (draft.begun_at, draft.build_s, draft.teardown_s) == (None, None, None)
