"""Every CSV under ASGI, as in production: made in parts while they are taken, by one thread, the same as at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient
from django.urls import reverse

from benchlab.audit.chain import add_entry
from benchlab.results import answers
from tests.charts import made

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def addresses(team, user) -> list[str]:
    """Of every CSV that pages give of own numbers."""
    host, topology, load = made.host(team, "h"), made.topology(team, "t"), made.workload(team)
    campaign = made.campaign(team)
    attempts = made.swept(campaign, host, topology, load, depths=(1, 4), repeats=2)
    made.sampled(attempts[0], disks=2, seconds=50)
    for number in range(20):
        add_entry("host.create", team_id=team.pk, subject=f"host {number}", actor="=1+1")
    one = [campaign.pk]
    return [
        reverse("audit-csv"),
        reverse("campaign-csv", args=one),
        reverse("compare-csv") + f"?campaign={campaign.pk}",
        reverse("attempt-series-csv", args=[attempts[0].pk]),
    ]


def asked(user: Any, url: str) -> tuple[Any, list[bytes]]:
    async def ask() -> tuple[Any, list[bytes]]:
        client = AsyncClient()
        await client.aforce_login(user)
        answer: Any = await client.get(url)
        if not answer.streaming:
            return answer, [answer.content]
        return answer, [part async for part in answer.streaming_content]

    return async_to_sync(ask)()


def test_long_ones_are_streamed_and_short_ones_are_whole(addresses, user, web, monkeypatch):
    for url in addresses:
        whole, (text,) = asked(user, url)
        assert whole["Content-Type"].startswith("text/csv") and text.count(b"\n") > 4, url
        assert whole.has_header("ETag")  # short: it is told whether it has changed
    monkeypatch.setattr(answers, "PART_BYTES", 100)
    for url in addresses:
        answer, parts = asked(user, url)
        assert answer.streaming and answer.is_async and len(parts) > 2, url
        # By a worker's WSGI or Django's test client it is the same text.
        direct: Any = web.get(url)
        assert b"".join(direct.streaming_content) == b"".join(parts)
        assert direct["Content-Disposition"] == answer["Content-Disposition"]


def test_formulas_stay_text(addresses, user):
    _, parts = asked(user, addresses[0])
    assert b",'=1+1," in b"".join(parts)


def test_too_many_at_once_is_said(addresses, user, monkeypatch):
    monkeypatch.setattr(answers, "EXPORT_SLOTS", threading.BoundedSemaphore(1))
    with answers.EXPORT_SLOTS:
        for url in addresses:
            answer, (text,) = asked(user, url)
            assert answer.status_code == 429 and answer["Retry-After"] == "5", url
            assert b"ask again" in text
