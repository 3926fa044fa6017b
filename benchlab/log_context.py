# SPDX-License-Identifier: Apache-2.0
"""Ids of what this thread, or this coroutine, works on: its log lines name them (benchlab/logs.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

Ids = Mapping[str, int | str]
NOTHING: Ids = MappingProxyType({})

# Of work: campaign, host, layout, attempt, run, task. Replaced whole, never changed.
WORK: ContextVar[Ids] = ContextVar("log_ids_of_work", default=NOTHING)
# Of the request that is answered, asked when a line is written: its user is known only after a while.
REQUEST: ContextVar[Callable[[], Ids] | None] = ContextVar("log_ids_of_request", default=None)


@contextmanager
def about(**ids: int | str | None) -> Iterator[None]:
    """Lines of the block name these too; None names nothing."""
    context_ids = {name: value for name, value in ids.items() if value is not None}
    before = WORK.set({**WORK.get(), **context_ids})
    try:
        yield
    finally:
        WORK.reset(before)


def ids() -> dict[str, int | str]:
    """Those that a line which is written now names."""
    request_id = REQUEST.get()
    return {**(request_id() if request_id else {}), **WORK.get()}
