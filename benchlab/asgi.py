# SPDX-License-Identifier: Apache-2.0
"""ASGI entry point, served by benchlab/web/server.py. The settings see by this module that they are a web server's."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import django
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponseBase
from django.urls import get_resolver, resolve

from benchlab import garbage
from benchlab.celery import app
from benchlab.web import request_slots
from benchlab.workers.process_counters import counters

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")


# Python works on one request at a time however many have begun, and threads that take turns at each lock (Django asks
# one for every address that it writes) wait for each other: a hundred people waited eight seconds for half of a CPU.
AT_ONCE = max(4, 2 * (os.cpu_count() or 2))
PATIENCE_S = 5.0
# Answered at once, and before any middleware: a health check names an address that ALLOWED_HOSTS need not have, speaks
# plain HTTP where BENCHLAB_HTTPS redirects pages, and wants to know just that: whether others wait. So does Prometheus.
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})


class Application(ASGIHandler):
    """Django's own, but a request stays in one thread from the first middleware to the last.

    Django's would go back to the event loop between any two of them, two times for each: some thirty changes of thread
    cost more than most pages, and each waits for its turn behind all other threads. What is streamed is still taken by
    the event loop, so an open page costs no thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turns = asyncio.Semaphore(AT_ONCE)

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        if request.path_info in PROBES:
            probe: Callable[[HttpRequest], HttpResponseBase] = resolve(request.path_info).func
            return await sync_to_async(probe, thread_sensitive=True)(request)
        answer = sync_to_async(self.get_response, thread_sensitive=True)
        async with self._turn():
            return await answer(request)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One of AT_ONCE; who waited for long goes on without, as those before may all wait for the database.

        Whoever waits for a host gives its place back: four of one team's silent hosts would keep all others waiting.
        """
        try:
            await asyncio.wait_for(self._turns.acquire(), PATIENCE_S)
        except TimeoutError:
            yield
            return
        loop, has_it = asyncio.get_running_loop(), [True]

        def give_back() -> None:
            if has_it:
                has_it.clear()
                self._turns.release()

        request_slots.hold_slot(partial(loop.call_soon_threadsafe, give_back))
        try:
            yield
        finally:
            give_back()


def load_all() -> None:
    """Load what the first request of its kind would else load while all others wait: each page's code, Celery, its
    tasks.

    The first press that gives a worker something to do took seconds when a hundred people were about.
    """
    get_resolver().url_patterns  # noqa: B018
    app.loader.import_default_modules()
    app.finalize()
    # which opens none
    with app.connection_for_write() as connection:
        _ = connection.transport, app.amqp.producer_pool, app.events.Dispatcher


django.setup(set_prefix=False)
load_all()
garbage.freeze_loaded_objects(garbage.WEB_THRESHOLDS)
application = Application()
counters.begin()
