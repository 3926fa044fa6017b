"""The hub, with the real Valkey: who listens hears, who leaves costs nothing."""

from __future__ import annotations

import asyncio
import os
import time
import urllib.request

import pytest
import redis.asyncio
from asgiref.sync import async_to_sync
from django.conf import settings
from django.test import AsyncClient
from django.urls import reverse

from benchlab.pages.campaigns import live
from benchlab.runs import events
from benchlab.runs.events import ChangeListener
from benchlab.web.connections import Streams


@pytest.fixture(autouse=True)
def ours_alone(monkeypatch):
    """What needs no database has none of its own: another process must neither be heard nor counted."""
    monkeypatch.setattr(events, "_database_name", lambda: f"test-{os.getpid()}")


async def publish(campaign: int) -> int:
    """Publish a change; returns the number of subscribers that heard it."""
    async with redis.asyncio.Redis.from_url(settings.REDIS_URL) as client:
        return int(await client.publish(events.campaign_channel(campaign), b"changed"))


async def drained(queue: asyncio.Queue[None]) -> None:
    """Past the wake-up that every new subscription gives."""
    await asyncio.wait_for(queue.get(), 5)


def test_only_the_pages_of_a_campaign_wake():
    async def check() -> None:
        hub = live.EventHub()
        async with hub.listen(1) as mine, hub.listen(2) as other, hub.listen(1) as also_mine:
            for queue in (mine, other, also_mine):
                await drained(queue)
            await publish(1)
            await asyncio.wait_for(asyncio.gather(mine.get(), also_mine.get()), 5)
            assert other.empty()

    asyncio.run(check())


def test_a_page_that_shows_the_end_is_woken_by_changes_alone():
    """The wake-up of a new subscription would have it rendered twice."""

    async def check() -> None:
        hub = live.EventHub()
        async with hub.listen(1) as going, hub.listen(1, settled=True) as over:
            await drained(going)
            assert over.empty()
            await publish(1)
            await asyncio.wait_for(asyncio.gather(going.get(), over.get()), 5)

    asyncio.run(check())


@pytest.mark.parametrize("other", ["lab?", "lab*", "[lab]", "lab\\", "lab2"])
def test_another_database_of_the_same_redis_is_not_heard(monkeypatch, other):
    """A numbered database is no fence: whoever publishes in one is heard in all."""

    async def check() -> None:
        monkeypatch.setattr(events, "_database_name", lambda: other)
        hub = live.EventHub()
        async with hub.listen(1) as queue:
            await drained(queue)
            monkeypatch.setattr(events, "_database_name", lambda: "labx")
            assert await publish(1) == 0
            monkeypatch.setattr(events, "_database_name", lambda: other)
            assert await publish(1) == 1
            await asyncio.wait_for(queue.get(), 5)

    asyncio.run(check())


def test_one_subscription_serves_all_and_ends_with_the_last():
    async def check() -> None:
        hub = live.EventHub()
        before = await publish(999)
        async with hub.listen(999) as one, hub.listen(999) as two:
            await drained(one)
            await drained(two)
            assert await publish(999) == before + 1
            assert hub.listeners == 2
        assert hub.listeners == 0
        assert await publish(999) == before

    asyncio.run(check())


def test_a_burst_is_one_wake_up():
    async def check() -> None:
        hub = live.EventHub()
        async with hub.listen(1) as queue:
            await drained(queue)
            for _ in range(50):
                hub.wake(events.campaign_channel(1))
            assert queue.qsize() == 1

    asyncio.run(check())


def test_what_is_heard_tells_from_when_on_answers_still_count(monkeypatch):
    """While it listens; before, and after the last page left, nothing is known to be still so."""
    ear = ChangeListener()
    monkeypatch.setattr(live, "change_listener", ear)

    def known() -> bool:
        """Of campaign 1 something that was made just before."""
        return ear.current_since(1) < time.monotonic() - 0.1

    async def check() -> None:
        hub = live.EventHub()
        assert not known()
        async with hub.listen(1) as queue:
            await drained(queue)
            for _ in range(50):
                await asyncio.sleep(0.1)
                if known():
                    break
            assert known()
            before = time.monotonic()
            await publish(1)
            await asyncio.wait_for(queue.get(), 5)
            assert ear.current_since(1) >= before
        before = time.monotonic()
        assert ear.current_since(1) >= before

    asyncio.run(check())


def test_a_redis_that_is_away_is_tried_again(settings, monkeypatch, caplog):
    monkeypatch.setattr(live, "RECONNECT_SECONDS", 0.05)
    good = settings.REDIS_URL

    async def check() -> None:
        hub = live.EventHub()
        settings.REDIS_URL = "redis://127.0.0.1:1/0"
        async with hub.listen(1) as queue:
            await asyncio.sleep(0.2)
            assert queue.empty()
            settings.REDIS_URL = good
            await drained(queue)
            await publish(1)
            await drained(queue)

    asyncio.run(check())
    assert "fall back on polling" in caplog.text


@pytest.fixture
def stream_quickly(monkeypatch):
    monkeypatch.setattr(live, "PING_SECONDS", 0.2)
    monkeypatch.setattr(live, "MIN_WAKE_SECONDS", 0.0)


@pytest.mark.django_db(transaction=True)
def test_the_stream_says_changed_and_pings(stream_quickly, user, campaign):
    async def check() -> None:
        client = AsyncClient()
        await client.aforce_login(user)
        answer = await client.get(reverse("campaign-events", args=[campaign.pk]))
        assert answer["Content-Type"] == "text/event-stream"
        assert (answer["Cache-Control"], answer["X-Accel-Buffering"]) == (
            "no-cache, private",
            "no",
        )
        stream = answer.streaming_content  # type: ignore[attr-defined]
        heard = [await anext(stream), await asyncio.wait_for(anext(stream), 5)]
        assert heard[0] == live.PING
        while heard[-1] != live.CHANGED:  # the subscription's own wake-up
            heard.append(await asyncio.wait_for(anext(stream), 5))
        await publish(campaign.pk)
        heard = [await asyncio.wait_for(anext(stream), 5) for _ in range(3)]
        assert live.CHANGED in heard and live.PING in heard
        # The server cancels the request of a browser that went away.
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert live.hub().listeners == 0

    async_to_sync(check)()


@pytest.mark.django_db(transaction=True)
def test_the_stream_is_not_for_another_team(other_web, campaign):
    """Not by AsyncClient: it makes the page of an error in a thread of its own, whose connection nobody closes."""
    assert other_web.get(reverse("campaign-events", args=[campaign.pk])).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_a_stranger_is_sent_to_the_login(client, campaign):
    answer = client.get(reverse("campaign-events", args=[campaign.pk]))
    assert answer.status_code == 302


def test_many_pages_are_told_less_often_and_not_at_once(monkeypatch):
    """Forty of them: each at most every ten seconds, and two changes are told to few at the same moment."""
    hub = live.EventHub()
    assert hub.wake_interval == live.MIN_WAKE_SECONDS
    monkeypatch.setattr(live.EventHub, "listeners", 40)
    monkeypatch.setattr(live, "SECONDS_PER_PAGE", 0.05)
    assert hub.wake_interval == 2.0
    # Not the wake-up that a new subscription gives: who had it would be gone before the last one comes.
    monkeypatch.setattr(live.EventHub, "_read_events", lambda self: asyncio.sleep(60))

    async def check() -> None:
        begun, told = asyncio.get_running_loop().time(), []
        monkeypatch.setattr(live, "hub", lambda: hub)

        async def page() -> None:
            async for said in live._event_stream(7, Streams(limit=1)):
                if said == live.CHANGED:
                    told.append(asyncio.get_running_loop().time() - begun)
                    return

        pages = [asyncio.create_task(page()) for _ in range(20)]
        while sum(map(len, hub._queues.values())) < 20:
            await asyncio.sleep(0.01)
        hub.wake(events.campaign_channel(7))
        await asyncio.gather(*pages)
        assert max(told) - min(told) > 0.3

    asyncio.run(asyncio.wait_for(check(), 60))


def test_a_server_that_stops_ends_its_streams_at_once(monkeypatch):
    """Those too that were told of a change a moment ago."""
    monkeypatch.setattr(live.EventHub, "_read_events", lambda self: asyncio.sleep(60))

    async def check() -> None:
        streams = [Streams(limit=1), Streams(limit=1)]
        told = [live._event_stream(7, one) for one in streams]
        assert [await anext(one) for one in told] == [live.PING] * 2
        live.hub().wake(events.campaign_channel(7))
        assert [await anext(one) for one in told] == [live.CHANGED] * 2
        ends = [asyncio.ensure_future(anext(one, None)) for one in told]
        await asyncio.sleep(0)
        for one in streams:
            one.ended.set()
        begun = asyncio.get_running_loop().time()
        assert await asyncio.gather(*ends) == [None, None]
        assert asyncio.get_running_loop().time() - begun < live.MIN_WAKE_SECONDS / 2

    asyncio.run(asyncio.wait_for(check(), 60))


@pytest.mark.django_db(transaction=True)
def test_a_server_that_cannot_stream_answers_at_once(live_server, web, campaign):
    """Over WSGI, as the browser tests' server is: a page that is told "none" goes on by its clock."""
    asked = urllib.request.Request(
        live_server.url + reverse("campaign-events", args=[campaign.pk]),
        headers={
            "Cookie": f"{settings.SESSION_COOKIE_NAME}={web.cookies[settings.SESSION_COOKIE_NAME].value}"
        },
    )
    with urllib.request.urlopen(asked, timeout=10) as answer:  # our own server
        assert (answer.status, answer.read()) == (204, b"")
