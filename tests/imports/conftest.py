from __future__ import annotations

import pytest

from agents import registry
from benchlab.imports import drafts
from tests.imports import made


@pytest.fixture
def readers(monkeypatch):
    monkeypatch.setattr(registry, "all_readers", lambda: made.READERS)


@pytest.fixture
def nudges(monkeypatch) -> list[int]:
    """Messages that would have gone to Celery."""
    sent: list[int] = []
    monkeypatch.setattr(drafts, "_send", lambda task, pk: sent.append(pk))
    return sent
