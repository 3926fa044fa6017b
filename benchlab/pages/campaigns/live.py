# SPDX-License-Identifier: Apache-2.0
"""Live pages: one Redis subscription per process wakes every open page, and equal pages share one rendering.

An event says only "look again"; the page re-reads PostgreSQL. So a queue holds one wake-up at most, and a new one that
finds it full is dropped: the page will see both changes anyway. Without Redis the pages' own polling goes on.

What a change costs is what all open pages then ask for. So the more of them there are, the less often each is told, and
not all at once: pages that people turn to must not wait behind them. Most of them show the same, which is rendered once
for all who ask for the same and may do the same. A person's own in it is the token of its forms.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import redis.asyncio
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.http import require_GET

from benchlab.campaigns.models import Campaign
from benchlab.runs import events
from benchlab.runs.events import change_listener
from benchlab.web.connections import STREAMS, Streams
from benchlab.web.shared_answers import SharedAnswers, access_rights, may_be_shared

log = logging.getLogger(__name__)

PING_SECONDS = 15.0
# a page is woken at most this often
MIN_WAKE_SECONDS = 1.0
# So far apart are the pages of this process: what one asks for was mostly made for another one already, and to tell it
# takes about a tenth of that on a machine of two cores.
SECONDS_PER_PAGE = 0.1
RECONNECT_SECONDS = 2.0
CHANGED = b"event: changed\ndata: \n\n"
PING = b": ping\n\n"

Queue = asyncio.Queue[None]


class EventHub:
    """The pages that listen in this process (one hub per event loop). Connects with the first, leaves with the last."""

    def __init__(self) -> None:
        self._settled: set[Queue] = set()
        self._queues: dict[str, set[Queue]] = defaultdict(set)
        self._reader: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def listen(self, campaign_id: int, *, settled: bool = False) -> AsyncIterator[Queue]:
        """Yield a queue that wakes a page. `settled`: its campaign is over, so that it is woken by events alone."""
        name = events.campaign_channel(campaign_id)
        queue: Queue = asyncio.Queue(maxsize=1)
        self._queues[name].add(queue)
        if settled:
            self._settled.add(queue)
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_events())
        try:
            yield queue
        finally:
            self._queues[name].discard(queue)
            self._settled.discard(queue)
            if not self._queues[name]:
                del self._queues[name]
            if not self._queues:
                await self._stop_reader()

    @property
    def listeners(self) -> int:
        return sum(map(len, self._queues.values()))

    @property
    def wake_interval(self) -> float:
        """Seconds between two wake-ups of one page."""
        return max(MIN_WAKE_SECONDS, SECONDS_PER_PAGE * self.listeners)

    def wake(self, name: str, *, settled: bool = True) -> None:
        change_listener.record_change(name)
        queues = self._queues.get(name, set())
        for queue in queues if settled else queues - self._settled:
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(None)

    async def _stop_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader

    async def _read_events(self) -> None:
        while True:
            try:
                await self._subscribe()
            except (redis.RedisError, OSError) as error:
                log.warning("live pages fall back on polling: %s", error)
            finally:
                change_listener.stop_listening()
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _subscribe(self) -> None:
        client = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2)
        async with client, client.pubsub() as pubsub:
            await pubsub.psubscribe(events.channel_pattern())
            # What happened while nobody was subscribed is unknown: everybody looks once. A campaign that is over
            # changes by a retry alone, and its next step is told.
            for name in list(self._queues):
                self.wake(name, settled=False)
            async for message in pubsub.listen():
                if message["type"] == "psubscribe":
                    change_listener.start_listening()
                elif message["type"] == "pmessage":
                    self.wake(message["channel"].decode())


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, EventHub] = WeakKeyDictionary()


def hub() -> EventHub:
    return _hubs.setdefault(asyncio.get_running_loop(), EventHub())


@require_GET
def campaign_events(request: HttpRequest, pk: int) -> HttpResponseBase:
    """A stream of `changed` events of one campaign. 404 for other teams' campaigns. ?over=1: the page shows its end.

    204, none, over WSGI and while half of the address's connections are streams: the page then goes on polling.
    """
    if not Campaign.objects.visible_to(request.user).filter(pk=pk).exists():
        raise Http404("No such campaign.")
    if not isinstance(request, ASGIRequest):
        # WSGI can take no stream from the event loop, and would give each open page a thread of its own.
        return HttpResponse(status=204)
    # Without our web server nobody counts connections.
    streams = request.scope.get("state", {}).get(STREAMS) or Streams(limit=1)
    if streams.is_full:
        return HttpResponse(status=204)
    stream = _event_stream(pk, streams, settled=request.GET.get("over") == "1")
    answer = StreamingHttpResponse(stream, content_type="text/event-stream")
    answer["Cache-Control"] = "no-cache"
    answer["X-Accel-Buffering"] = "no"
    return answer


async def _event_stream(
    pk: int, streams: Streams, *, settled: bool = False
) -> AsyncIterator[bytes]:
    draw = random.Random()  # noqa: S311  # when to be told is no secret
    with streams.one_more():
        # Here the middleware is through with the answer. What it opened would stay ours as long as the page is open.
        await sync_to_async(connections.close_all)()
        async with hub().listen(pk, settled=settled) as queue:
            # so that the browser sees the stream open at once
            yield PING
            while not streams.ended.is_set():
                if not await _wait_for_first(PING_SECONDS, queue.get(), streams.ended.wait()):
                    yield PING
                    continue
                late = draw.uniform(0, hub().wake_interval - MIN_WAKE_SECONDS)
                await _wait_for_first(late, streams.ended.wait())
                yield CHANGED
                await _wait_for_first(hub().wake_interval - late, streams.ended.wait())


async def _wait_for_first(seconds: float, *awaited: Coroutine[Any, Any, object]) -> bool:
    """Wait for the first of them; False: none came in so many seconds."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in awaited]
    try:
        finished, _ = await asyncio.wait(
            tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        for task in tasks:
            task.cancel()
    return bool(finished)


# Stands for the asker's token. It is in no answer that leaves, so nobody can write it into what others see.
TOKEN = secrets.token_urlsafe(32)
RENDERED_PARTS: SharedAnswers[str] = SharedAnswers()


def render_live_part(
    request: HttpRequest,
    campaign: Campaign,
    template: str,
    make: Callable[[], Mapping[str, Any]],
    *,
    own: bool,
) -> HttpResponse:
    """Render with the context of `make`. `own`: it contains something of this person's alone."""
    if own or not may_be_shared(request):
        return render(request, template, dict(make()))

    def render_shared() -> str:
        return render_to_string(template, {**make(), "csrf_token": TOKEN}, request)

    key = campaign.pk, request.META.get("QUERY_STRING", ""), access_rights(request.user)
    text = RENDERED_PARTS.get_or_make(
        key, change_listener.current_since(campaign.pk), render_shared
    )
    return HttpResponse(text.replace(TOKEN, get_token(request)) if TOKEN in text else text)
