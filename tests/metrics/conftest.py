from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from benchlab.metrics import database, view
from benchlab.workers import beats
from benchlab.workers import process_counters as tallies


@pytest.fixture(autouse=True)
def counts(monkeypatch) -> Iterator[tallies.ProcessCounters]:
    """Counters of this test alone: all tests of a run share one Valkey, and one process's counters."""
    mine = secrets.token_hex(4)
    for module in (tallies, view):
        for name in ("COUNTS", "PROCESSES", "TIMES"):
            monkeypatch.setattr(module, name, f"test:{mine}:{name}")
    monkeypatch.setattr(database._Counts, "at", float("-inf"))
    with tallies.counters._lock:
        tallies.counters._counts.clear()
    client = beats.client()
    yield tallies.counters
    client.delete(*map(beats.installation_key, (tallies.COUNTS, tallies.PROCESSES, tallies.TIMES)))
