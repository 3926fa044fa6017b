"""Counters of a process: handed over once, kept while Valkey is away, and never too many."""

from __future__ import annotations

import time

import pytest
import redis

from benchlab.workers import beats, process_counters
from benchlab.workers.process_counters import MOST_SERIES, ProcessCounters


def there() -> dict[tuple[str, ...], float]:
    return process_counters.parse_counts(
        beats.client().hgetall(beats.installation_key(process_counters.COUNTS))
    )


def test_two_processes_are_added_up():
    for mine in (ProcessCounters(), ProcessCounters()):
        mine.add("tasks_total", "a", "succeeded", by=2)
        mine.hand_over()
        mine.hand_over()  # nothing came in between
    assert there() == {("tasks_total", "a", "succeeded"): 4.0}


def test_what_could_not_be_handed_over_waits(monkeypatch):
    mine = ProcessCounters()
    mine.add("tasks_total", "a", "failed")

    def away():
        raise redis.ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(beats, "client", away)
        with pytest.raises(redis.RedisError):
            mine.hand_over()
        mine.add("tasks_total", "a", "failed")
    mine.hand_over()
    assert there() == {("tasks_total", "a", "failed"): 2.0}


def test_a_process_counts_only_so_many_series():
    mine = ProcessCounters()
    for number in range(MOST_SERIES + 10):
        mine.add("tasks_total", str(number))
    assert len(mine._counts) == MOST_SERIES
    mine.add("tasks_total", "0")
    assert mine._counts["tasks_total", "0"] == 2


def test_a_process_says_that_it_is_alive_until_it_ends(monkeypatch):
    monkeypatch.setattr(process_counters, "EVERY_S", 0.05)
    mine = ProcessCounters(gauges={"connections": lambda: 7.0})
    mine.begin()
    assert mine._thread is None  # it has no role
    mine.begin("web")
    until = time.monotonic() + 20
    while (
        not (said := beats.client().hgetall(beats.installation_key(process_counters.PROCESSES)))
        and time.monotonic() < until
    ):
        time.sleep(0.01)
    [one] = process_counters.parse_processes(said)
    assert (one.role, one.gauges, one.name) == (
        "web",
        {"connections": 7.0},
        process_counters.identity(),
    )
    mine.add("tasks_total", "last", "succeeded")
    mine.end()
    assert there() == {("tasks_total", "last", "succeeded"): 1.0}
    assert not beats.client().hgetall(beats.installation_key(process_counters.PROCESSES))


def test_what_is_no_count_of_ours_is_left_out():
    assert process_counters.parse_counts({b"junk": b"1", b'["a"]': b"x", b'["b"]': b"2"}) == {
        ("b",): 2.0
    }
    assert process_counters.parse_processes({b"a": b"junk", b"b": b"{}", b"c": b"[]"}) == []
