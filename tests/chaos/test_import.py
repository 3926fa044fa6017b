"""kill -9 of a real Celery worker in the middle of storing an import: all of it is stored, once, by the next one."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from io import BytesIO

import pytest
from django.conf import settings
from django.core.cache.backends.redis import RedisCache
from django.utils import timezone

from benchlab.campaigns.models import Campaign
from benchlab.imports import draft_store, drafts, readings
from benchlab.imports.agreements import Agreement, ResultChoice
from benchlab.imports.models import Draft, Source
from benchlab.runs.models import Attempt
from benchlab.workers import messages
from tests.imports.test_storing import TEXT
from tests.stack import redis_url, wait_for, worker

pytestmark = pytest.mark.django_db(transaction=True)
FILES = 400  # fewer are stored before anybody could kill the worker


@pytest.fixture
def draft(team, monkeypatch) -> Draft:
    monkeypatch.setattr(messages, "send", lambda task, pk: None)  # the sweeper has to find it
    raw = [TEXT.format(n=n, b=n << 20, rate=(n << 20) / 1e6).encode() for n in range(1, FILES + 1)]
    uploads = [drafts.Upload(f"{n}.txt", BytesIO(one), len(one)) for n, one in enumerate(raw)]
    made = drafts.create_draft(team=team, user=None, uploads=uploads)
    for pk in made.files.values_list("pk", flat=True):
        drafts.read_file(pk)
    chosen = [
        ResultChoice(one.result_key, new_host="h", new_topology="t")
        for one in readings.offered_results(made)
    ]
    draft_store.agree(made, Agreement(chosen, "many"), user=None)
    Draft.objects.update(agreed_at=timezone.now() - timedelta(minutes=5))
    return made


@pytest.mark.slow
def test_what_a_killed_worker_was_storing_is_stored_once(draft, tmp_path):
    redis, log = redis_url(13), tmp_path / "worker.log"
    cache, key = (
        RedisCache(redis, {"KEY_PREFIX": settings.INSTALLATION}),
        f"import-{draft.pk}-stored",
    )
    cache.delete(key)
    with worker(tmp_path, redis) as first:
        wait_for(lambda: (cache.get(key) or 0) > 5, log, 90)  # its progress, as the page shows it
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    assert not Campaign.objects.exists() and not Source.objects.exists()
    assert draft.files.count() == FILES
    with worker(tmp_path, redis):
        wait_for(lambda: Draft.objects.filter(stored_at__isnull=False).exists(), log, 120)
    assert Campaign.objects.count() == 1
    assert Attempt.objects.count() == Source.objects.count() == FILES
    outcome = Draft.objects.get().outcome
    assert outcome and (outcome["stored"], outcome["failed"]) == (FILES, [])
