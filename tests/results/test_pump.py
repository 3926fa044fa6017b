"""A long answer's thread ends with whoever asked, however that one went: its slot and its connection are free again."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator

import pytest

from benchlab.results import streaming

pytestmark = pytest.mark.django_db


def endless(pause: float = 0.0) -> Iterator[bytes]:
    while True:
        time.sleep(pause)
        yield b"x"


def slots() -> int:
    return streaming.AT_ONCE._value


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


def test_one_that_is_dropped_before_it_was_begun_gives_its_slot_back():
    """Who asked has hung up while the first parts were made: Django drops the answer without closing it."""
    free = slots()
    made = streaming.Pump(endless)
    assert slots() == free - 1
    del made
    gc.collect()
    until(lambda: slots() == free)


def test_one_that_is_cancelled_while_it_waits_leaves_no_thread_waiting():
    """asyncio has six threads on two cores: six people who hang up must not hold them for two minutes."""
    free = slots()

    async def taken() -> None:
        async for _ in streaming.Pump(lambda: endless(0.3)):
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
        return [part async for part in streaming.Pump(lambda: iter([b"a", b"b", b"c"]))]

    free = slots()
    assert asyncio.run(taken()) == [b"a", b"b", b"c"]
    until(lambda: slots() == free)
