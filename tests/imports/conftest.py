from __future__ import annotations

import pytest

from agents.drivers import registry
from benchlab.imports import draft_store, drafts, reference_library
from benchlab.imports.reference_library import articles
from benchlab.team.models import Team
from benchlab.workers import messages
from tests.imports import made


@pytest.fixture
def readers(monkeypatch):
    monkeypatch.setattr(registry, "all_readers", lambda: made.READERS)


NUDGE, NUDGE_STORING = drafts.queue_reading, draft_store.queue_storing


@pytest.fixture(autouse=True)
def at_work(monkeypatch) -> None:
    """A worker reads whatever is handed in and stores what is agreed to, before anybody can look."""

    def read(ids):
        for pk in list(ids):
            drafts.read_file(pk)

    monkeypatch.setattr(drafts, "queue_reading", read)
    monkeypatch.setattr(draft_store, "queue_storing", draft_store.store_draft)


@pytest.fixture
def nobody_reads(monkeypatch, at_work) -> None:
    """All workers are busy."""
    monkeypatch.setattr(drafts, "queue_reading", NUDGE)


@pytest.fixture
def nobody_stores(monkeypatch, at_work) -> None:
    monkeypatch.setattr(draft_store, "queue_storing", NUDGE_STORING)


@pytest.fixture
def nudges(monkeypatch) -> list[int]:
    """Messages that would have gone to Celery."""
    sent: list[int] = []
    monkeypatch.setattr(messages, "send", lambda task, pk: sent.append(pk))
    return sent


@pytest.fixture(scope="module")
def shelved(django_db_setup, django_db_blocker):
    """The whole reference library, loaded once for all tests of a module; each undoes what it changes."""
    with django_db_blocker.unblock():
        done = reference_library.load_library(articles())
        yield done
        reference_library.load_library([])
        Team.objects.filter(library=True).delete()
