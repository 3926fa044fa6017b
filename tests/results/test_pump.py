"""A long answer's thread ends with whoever asked, however that one went: its slot and its connection are free again."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection

from benchlab.results import answers

pytestmark = pytest.mark.django_db


def endless(pause: float = 0.0) -> Iterator[bytes]:
    while True:
        time.sleep(pause)
        yield b"x"


def parts_of(size: int, many: int) -> Callable[[], Iterator[bytes]]:
    return lambda: (b"x" * size for _ in range(many))


def slots() -> int:
    return answers.EXPORT_SLOTS._value


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


def test_one_that_is_dropped_before_it_was_begun_gives_its_slot_back():
    """The client hung up while the first parts were made: Django drops the answer without closing it."""
    free = slots()
    made = answers.ThreadedStream(endless)
    assert slots() == free - 1
    del made
    gc.collect()
    until(lambda: slots() == free)


@pytest.mark.one_in(2)
def test_one_that_is_cancelled_while_it_waits_leaves_no_thread_waiting():
    """asyncio has six threads on two cores: six people who hang up must not hold them for two minutes."""
    free = slots()

    async def taken() -> None:
        async for _ in answers.ThreadedStream(lambda: endless(0.3)):
            pass

    async def hang_up() -> float:
        for _ in range(6):
            task = asyncio.create_task(taken())
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        begun = time.monotonic()
        await asyncio.gather(*(asyncio.to_thread(time.sleep, 0) for _ in range(40)))
        return time.monotonic() - begun

    assert asyncio.run(hang_up()) < 5
    until(lambda: slots() == free)


def test_all_parts_come_and_the_slot_is_free():
    async def taken() -> list[bytes]:
        return [part async for part in answers.ThreadedStream(lambda: iter([b"a", b"b", b"c"]))]

    free = slots()
    assert asyncio.run(taken()) == [b"a", b"b", b"c"]
    until(lambda: slots() == free)


def test_who_takes_a_part_now_and_then_does_not_hold_a_place_for_days(monkeypatch):
    """Each part within the patience, and two gigabytes of them."""
    free = slots()
    monkeypatch.setattr(answers, "PATIENCE_S", 2.0)

    async def dripped() -> int:
        taken = 0
        async for part in answers.ThreadedStream(parts_of(1000, 10_000)):
            taken += len(part)
            await asyncio.sleep(0.5)
        return taken

    with pytest.raises(answers.TooSlow):  # the connection is cut: half of it does not look whole
        asyncio.run(asyncio.wait_for(dripped(), 20))
    until(lambda: slots() == free)


@pytest.mark.one_in(2)
def test_who_comes_back_too_late_is_told_so_at_once(monkeypatch):
    """No thread of asyncio's waits for a part that nobody makes any more."""
    monkeypatch.setattr(answers, "PATIENCE_S", 1.0)

    async def late() -> None:
        async for _ in answers.ThreadedStream(parts_of(1, 100)):
            await asyncio.sleep(4)

    with pytest.raises(answers.TooSlow):
        asyncio.run(asyncio.wait_for(late(), 20))


@pytest.mark.one_in(2)
def test_who_takes_as_fast_as_a_slow_line_allows_gets_it_whole(monkeypatch):
    monkeypatch.setattr(answers, "PATIENCE_S", 1.0)

    async def taken() -> int:
        found = 0
        async for part in answers.ThreadedStream(parts_of(answers.MIN_BYTES_PER_SECOND, 30)):
            found += len(part)
            await asyncio.sleep(0.2)
        return found

    assert asyncio.run(taken()) == 30 * answers.MIN_BYTES_PER_SECOND


def test_one_person_leaves_places_to_others():
    free = slots()
    mine = [answers.ThreadedStream(endless, 7) for _ in range(answers.MAX_PER_PERSON)]
    with pytest.raises(answers.Busy):
        answers.ThreadedStream(endless, 7)
    assert slots() == free - answers.MAX_PER_PERSON > 0
    other = answers.ThreadedStream(endless)
    mine.pop().close()
    until(lambda: answers._under_way[7] == answers.MAX_PER_PERSON - 1)
    mine.append(answers.ThreadedStream(endless, 7))
    del mine, other
    gc.collect()
    until(lambda: slots() == free and not +answers._under_way)


def test_one_team_leaves_places_to_others():
    free = slots()
    theirs = [answers.ThreadedStream(endless, person, 3) for person in range(answers.MAX_PER_TEAM)]
    with pytest.raises(answers.Busy):
        answers.ThreadedStream(endless, answers.MAX_PER_TEAM, 3)
    other = answers.ThreadedStream(endless, 99, 4)
    theirs.pop().close()
    until(lambda: answers._of_teams[3] == answers.MAX_PER_TEAM - 1)
    theirs.append(answers.ThreadedStream(endless, answers.MAX_PER_TEAM, 3))
    del theirs, other
    gc.collect()
    until(lambda: slots() == free and not +answers._of_teams)


def test_without_a_thread_no_place_is_lost(monkeypatch):
    def none(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    free = slots()
    monkeypatch.setattr(threading.Thread, "start", none)
    with pytest.raises(RuntimeError):
        answers.ThreadedStream(endless)
    assert slots() == free


def asking(ends: str) -> Iterator[bytes]:
    """Rows of a cursor that stays open, as an archive has it."""
    for number, row in enumerate(ContentType.objects.order_by("pk").iterator(chunk_size=1)):
        if number == 12 and ends == "fails":
            raise ValueError("half way")
        yield f"{row.pk}".encode()


def others() -> set[int]:
    """Process numbers of this database's sessions, without the asking one. Another test's may be just ending."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return {int(row[0]) for row in cursor.fetchall()}


@pytest.mark.one_in(2)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ends", ["whole", "fails", "hangs up", "is cancelled", "is too slow"])
def test_however_it_ends_no_connection_is_left(monkeypatch, ends):
    slow = ends == "is too slow"
    # A busy machine may take longer than its patience until the sessions are counted
    monkeypatch.setattr(answers, "PATIENCE_S", 1.0 if slow else 60.0)
    before, free = others(), slots()
    ours = {connection.connection.info.backend_pid}

    async def taken() -> None:
        made = answers.ThreadedStream(lambda: asking(ends))
        assert slow or len(beside() - before - ours) == 1
        if ends == "hangs up":
            return
        async for _ in made:
            if ends == "is cancelled":
                raise asyncio.CancelledError
            await asyncio.sleep(3 if slow else 0)

    def beside() -> set[int]:
        with ThreadPoolExecutor(1) as pool:  # Django asks nothing in a thread with an event loop
            return pool.submit(asked).result()

    def asked() -> set[int]:
        try:
            return others()
        finally:
            connection.close()

    with contextlib.suppress(ValueError, answers.TooSlow, asyncio.CancelledError):
        asyncio.run(taken())
    gc.collect()
    until(lambda: slots() == free and others() <= before)


def test_parts_before_an_error_arrive():
    def make() -> Iterator[bytes]:
        yield from (b"a", b"b", b"c")
        raise ValueError("at the end")

    async def taken(pump: answers.ThreadedStream) -> list[bytes]:
        parts = []
        with pytest.raises(ValueError, match="at the end"):
            async for part in pump:
                parts.append(part)
        return parts

    free = slots()
    pump = answers.ThreadedStream(make)
    until(lambda: slots() == free)
    assert asyncio.run(taken(pump)) == [b"a", b"b", b"c"]
