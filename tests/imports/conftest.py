from __future__ import annotations

import pytest

from agents import registry
from benchlab.imports import agreeing, drafts, shelf
from benchlab.imports.articles import articles
from benchlab.team.models import Team
from tests.imports import made


@pytest.fixture
def readers(monkeypatch):
    monkeypatch.setattr(registry, "all_readers", lambda: made.READERS)


NUDGE, NUDGE_STORING = drafts.nudge, agreeing.nudge


@pytest.fixture(autouse=True)
def at_work(monkeypatch) -> None:
    """A worker reads whatever is handed in and stores what is agreed to, before anybody can look."""

    def read(ids):
        for pk in list(ids):
            drafts.read(pk)

    monkeypatch.setattr(drafts, "nudge", read)
    monkeypatch.setattr(agreeing, "nudge", agreeing.store)


@pytest.fixture
def nobody_reads(monkeypatch, at_work) -> None:
    """All workers are busy."""
    monkeypatch.setattr(drafts, "nudge", NUDGE)


@pytest.fixture
def nobody_stores(monkeypatch, at_work) -> None:
    monkeypatch.setattr(agreeing, "nudge", NUDGE_STORING)


@pytest.fixture
def nudges(monkeypatch) -> list[int]:
    """Messages that would have gone to Celery."""
    sent: list[int] = []
    monkeypatch.setattr(drafts, "_send", lambda task, pk: sent.append(pk))
    return sent


@pytest.fixture(scope="module")
def shelved(django_db_setup, django_db_blocker):
    """The whole reference library, loaded once for all tests of a module; each undoes what it changes."""
    with django_db_blocker.unblock():
        done = shelf.load(articles())
        yield done
        shelf.load([])
        Team.objects.filter(library=True).delete()
