"""Work that is gathered: done by one thread at a time, everything once, nothing left behind by one that fails."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from benchlab.workers.messages import BatchedWork


class Slow:
    """Work that the test lets go on."""

    def __init__(self) -> None:
        self.done: list[list[int]] = []
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, pks: Sequence[int]) -> None:
        self.begun.set()
        assert self.go_on.wait(10)
        self.done.append(list(pks))


def test_who_comes_alone_is_served_at_once():
    done: list[list[int]] = []
    gathered = BatchedWork(lambda pks: done.append(list(pks)))
    gathered.add(7)
    gathered.add(8)
    assert done == [[7], [8]]


def test_what_comes_meanwhile_is_done_together_by_who_is_at_it():
    work = Slow()
    gathered = BatchedWork(work)
    first = threading.Thread(target=gathered.add, args=(1,))
    first.start()
    assert work.begun.wait(10)
    for pk in (2, 3, 2, 4):
        gathered.add(pk)  # returns, while the first one is at it
    assert work.done == []
    work.go_on.set()
    first.join(10)
    assert work.done == [[1], [2, 3, 4]]


def test_what_fails_leaves_the_others_to_the_next():
    work, told = Slow(), list[BaseException]()

    def fails(pks: Sequence[int]) -> None:
        work(pks)
        if pks == [1]:
            raise ZeroDivisionError

    gathered = BatchedWork(fails)

    def first() -> None:
        with pytest.raises(ZeroDivisionError) as caught:
            gathered.add(1)
        told.append(caught.value)

    thread = threading.Thread(target=first)
    thread.start()
    assert work.begun.wait(10)
    gathered.add(2)
    work.go_on.set()
    thread.join(10)
    assert told
    gathered.add(3)
    assert work.done == [[1], [2, 3]]


def test_of_many_threads_each_is_done_once():
    done: list[int] = []
    together = threading.Barrier(8)
    gathered = BatchedWork(lambda pks: done.extend(pks))

    def add(begin: int) -> None:
        together.wait(10)
        for pk in range(begin, begin + 200):
            gathered.add(pk)

    threads = [threading.Thread(target=add, args=(n * 200,)) for n in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(20)
    assert sorted(done) == list(range(1600))
