# SPDX-License-Identifier: Apache-2.0
"""The event loop thread of this process, for callers in other threads."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, TypeVar

from agents.ssh.pool import Pool

T = TypeVar("T")


class _Loop:
    """The event loop thread of this process; made at first use, and anew after a fork."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="ssh", daemon=True)
        self.thread.start()


# Called before each command to a host, in the thread that asks for it. Raises where that thread may send no more.
check: ContextVar[Callable[[], None]] = ContextVar("check", default=lambda: None)
# use only inside `run`
pool = Pool()
_loop: _Loop | None = None
_starting = threading.Lock()


def _forget_loop() -> None:
    """After a fork the thread is gone and the sockets are the parent's: begin anew."""
    global _loop, pool, _starting
    _loop, pool, _starting = None, Pool(), threading.Lock()


os.register_at_fork(after_in_child=_forget_loop)


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Done by the loop thread; nobody waits for it here."""
    global _loop
    with _starting:
        _loop = _loop or _Loop()
    return asyncio.run_coroutine_threadsafe(work, _loop.loop)


def run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    future = submit(work)
    try:
        return future.result()
    except BaseException:
        # the waiting thread was interrupted: nobody wants the answer any more
        future.cancel()
        raise
