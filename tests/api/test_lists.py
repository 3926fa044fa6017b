"""Beside the rows of every list: cursors, chosen fields, ETags; and POST that is done once."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any, cast

import pytest
from django.conf import settings
from django.core.cache import caches
from django.db import connections
from django.utils import timezone
from redis.exceptions import RedisError
from rest_framework.test import APIClient

from benchlab.campaigns.models import Workload
from benchlab.rest.urls import router
from benchlab.testing import profiles
from benchlab.web import throttling
from benchlab.web.idempotency.models import KeptAnswer
from tests.api.conftest import client_of, is_problem

LOAD = {"name": "once", "tool": "fio", "options": {}}
OWN_DETAILS = ("imports", "package-installs")  # not the serializer's fields
KEY = "HTTP_IDEMPOTENCY_KEY"
VIEWS = cast("list[tuple[str, Any, str]]", router.registry)
LISTS = [prefix for prefix, view, _ in VIEWS if view.pagination_class]


def walked(api, url: str) -> list[int]:
    """The ids of all pages, by `next`."""
    found: list[int] = []
    while url:
        told = api.get(url).json()
        assert told["count"] is None and told["previous"] is None
        found += [row["id"] for row in told["results"]]
        url = told["next"]
    return found


@pytest.mark.draws
def test_a_cursor_walks_every_list_in_every_order(api, ours):
    orders = [
        (prefix, sign + field)
        for prefix, view, _ in VIEWS
        for field in (view.ordering_fields if view.pagination_class else ())
        for sign in ("", "-")
    ]
    for prefix, order in profiles.drawn(
        "orders of lists", orders, quick=20, more=20, proves=lambda one: one[:1]
    ):
        query = f"/api/{prefix}/?ordering={order}&page_size="
        whole = [row["id"] for row in api.get(f"{query}1000").json()["results"]]
        assert walked(api, f"{query}3&cursor=") == whole, (prefix, order)


def test_rows_that_come_and_go_move_no_page(api, ours):
    first = api.get("/api/measurements/?page_size=2&cursor=&ordering=-id").json()
    ours.attempts[0].measurements.create(name="late", value=1, unit="s")
    last = first["results"][-1]["id"]
    ours.attempts[0].measurements.model.objects.filter(pk=last).delete()
    second = api.get(first["next"]).json()
    assert [row["id"] for row in second["results"]] == [last - 1, last - 2]


def test_a_cursor_is_ours_and_of_this_order(api, ours):
    following = api.get("/api/measurements/?page_size=1&cursor=").json()["next"]
    is_problem(api.get(f"{following}&ordering=name"), 400)
    for bad in ("cursor=x", "cursor=&page=2"):
        assert "cursor" in is_problem(api.get(f"/api/measurements/?{bad}"), 400)["errors"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("prefix", LISTS)
def test_fields_that_were_asked_for(api, ours, prefix):
    row = api.get(f"/api/{prefix}/?fields=id").json()["results"][0]
    assert list(row) == ["id"]
    for url in (f"/api/{prefix}/", f"/api/{prefix}/{row['id']}/"):
        if prefix not in OWN_DETAILS or url.endswith(f"{prefix}/"):
            problem = is_problem(api.get(f"{url}?fields=id,colour"), 400)
            assert "colour" in problem["errors"]["fields"][0]
            is_problem(api.get(f"{url}?fields="), 400)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("prefix", LISTS)
def test_what_is_unchanged_is_not_sent_again(api, ours, prefix):
    first = api.get(f"/api/{prefix}/")
    for url in (f"/api/{prefix}/", f"/api/{prefix}/{first.json()['results'][0]['id']}/"):
        etag = api.get(url)["ETag"]
        again = api.get(url, headers={"If-None-Match": etag})
        assert again.status_code == 304 and not again.content and again["ETag"] == etag
        assert api.get(url, headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_change_is_sent(api, ours):
    url = f"/api/campaigns/{ours.campaign.pk}/"
    etag = api.get(url)["ETag"]
    ours.campaign.name = "New"
    ours.campaign.save()
    assert api.get(url, headers={"If-None-Match": etag}).json()["name"] == "New"


def test_a_post_with_a_key_is_done_once(api, ours):
    first = api.post("/api/workloads/", LOAD, **{KEY: "k1"})
    again = api.post("/api/workloads/", LOAD, **{KEY: "k1"})
    assert first.status_code == again.status_code == 201, first.content
    assert first.json() == again.json() and again["Idempotency-Replayed"] == "true"
    assert Workload.objects.filter(name="once").count() == 1
    is_problem(api.post("/api/workloads/", LOAD | {"name": "two"}, **{KEY: "k1"}), 409)
    is_problem(api.post("/api/campaigns/", LOAD, **{KEY: "k1"}), 409)
    assert api.post("/api/workloads/", LOAD | {"name": "two"}, **{KEY: "k2"}).status_code == 201


def test_a_refusal_is_kept_too(api, ours):
    for _ in range(2):
        said = api.post("/api/workloads/", {"name": "x"}, **{KEY: "k"})
        is_problem(said, 400)
    for bad in ("", "a" * 256, "ü"):
        is_problem(api.post("/api/workloads/", LOAD, **{KEY: bad}), 400)


def test_a_key_is_its_persons_and_lasts_a_day(api, other_api, ours, theirs):
    assert api.post("/api/workloads/", LOAD, **{KEY: "k"}).status_code == 201
    assert other_api.post("/api/workloads/", LOAD, **{KEY: "k"}).status_code == 201
    KeptAnswer.objects.update(created_at=timezone.now() - timedelta(hours=25))
    is_problem(api.post("/api/workloads/", LOAD, **{KEY: "k"}), 400)  # done anew: the name is taken


def test_what_was_cut_short_is_not_done_again(api, ours, monkeypatch):
    from benchlab.campaigns import services

    def cut(**given):
        raise RuntimeError("the power went")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(services, "create_workload", cut)
        api.post("/api/workloads/", LOAD, **{KEY: "k"})
    problem = is_problem(api.post("/api/workloads/", LOAD, **{KEY: "k"}), 409)
    assert "new key" in problem["detail"]


@pytest.mark.django_db(transaction=True)
def test_at_the_same_time_one_does_it(user):
    answers = []

    def send():
        answers.append(
            client_of(user).post("/api/workloads/", LOAD, headers={"Idempotency-Key": "k"})
        )
        connections.close_all()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert sum("Idempotency-Replayed" not in answer for answer in answers) == 1


@pytest.fixture
def counting(monkeypatch):
    """Redis, as in production: the other tests have a cache that keeps nothing."""
    backend = "django.core.cache.backends.redis.RedisCache"
    monkeypatch.setitem(
        caches.settings, "counting", {"BACKEND": backend, "LOCATION": settings.REDIS_URL}
    )
    monkeypatch.setattr(throttling, "cache", caches["counting"])
    monkeypatch.setattr(time, "time", lambda: 1e9 + id(counting) % 1e6 * 60)
    yield monkeypatch
    del caches["counting"]


def test_too_many_in_a_minute(api, other_api, ours, theirs, counting):
    counting.setitem(settings.BENCHLAB_API_RATES, "token", 3)
    counting.setattr(
        throttling,
        "count_call",
        lambda key, real=throttling.count_call: real(f"{key}-{ours.team.pk}"),
    )
    codes = [api.get("/api/hosts/").status_code for _ in range(5)]
    assert codes == [200, 200, 200, 429, 429]
    said = api.get("/api/hosts/")
    is_problem(said, 429)
    assert 1 <= int(said["Retry-After"]) <= 60
    assert other_api.get("/api/hosts/").status_code == 200


def test_every_answer_has_what_is_left_of_the_limit(api, other_api, ours, counting):
    """Of the nearest one, in the fields of draft-ietf-httpapi-ratelimit-headers-06: also refusals and streams."""
    counting.setitem(settings.BENCHLAB_API_RATES, "token", 7)
    counting.setitem(settings.BENCHLAB_API_RATES, "export", 2)
    counting.setattr(
        throttling,
        "count_call",
        lambda key, real=throttling.count_call: real(f"{key}-h-{ours.team.pk}"),
    )
    paths = (
        "hosts/",
        "hosts/?nope=1",
        "hosts/9999999/",
        "nowhere/",
        "results/",
        "schema/?format=json",
        "hosts/",
        "hosts/",
    )
    answers = [api.get(f"/api/{path}") for path in paths]
    assert [answer.status_code for answer in answers] == [200, 400, 404, 404, 200, 200, 200, 429]
    left = [(answer["RateLimit-Limit"], answer["RateLimit-Remaining"]) for answer in answers]
    assert left == [
        ("7", "6"),
        ("7", "5"),
        ("7", "4"),
        ("7", "3"),
        ("2", "1"),
        ("7", "1"),
        ("7", "0"),
        ("7", "0"),
    ]
    assert all(1 <= int(answer["RateLimit-Reset"]) <= 60 for answer in answers)
    assert "RateLimit-Limit" not in APIClient().get("/api/hosts/")


def test_exports_have_a_limit_of_their_own(api, ours, counting):
    counting.setitem(settings.BENCHLAB_API_RATES, "export", 1)
    counting.setattr(
        throttling,
        "count_call",
        lambda key, real=throttling.count_call: real(f"{key}-e-{ours.team.pk}"),
    )
    assert api.get("/api/results/").status_code == 200
    is_problem(api.get("/api/results/"), 429)
    assert api.get("/api/hosts/").status_code == 200


def test_without_redis_each_process_counts(api, other_api, ours, theirs, counting):
    """It is asked again only some seconds later: one that hangs costs two seconds each time."""
    asked = []

    class Gone:
        def add(self, *given):
            asked.append(given)
            raise RedisError("gone")

    counting.setattr(throttling, "local_counts", throttling.LocalCounts())
    counting.setattr(throttling, "cache", Gone())
    counting.setitem(settings.BENCHLAB_API_RATES, "user", 2)
    codes = [api.get("/api/hosts/").status_code for _ in range(4)]
    assert codes == [200, 200, 429, 429] and len(asked) == 1
    assert other_api.get("/api/hosts/").status_code == 200
    minute = time.time() + 60
    counting.setattr(time, "time", lambda: minute)
    assert api.get("/api/hosts/").status_code == 200
    counting.setattr(throttling.local_counts, "_away_until", 0.0)
    api.get("/api/hosts/")
    assert len(asked) == 2


@pytest.mark.parametrize("noun", ["invitations", "shares"])
def test_a_link_is_not_kept_and_a_replay_is_no_deed(api, ours, noun):
    """The answer that is sent again has all that the schema calls required; the link is told to be gone."""
    from benchlab.audit.models import Entry

    of_a_campaign = {"kind": "campaign", "object_id": ours.campaign.pk}
    sent = {"team": ours.team.pk, "role": "viewer"} if noun == "invitations" else of_a_campaign
    first = api.post(f"/api/{noun}/", sent, **{KEY: "k"}).json()
    deeds = Entry.objects.count()
    again = api.post(f"/api/{noun}/", sent, **{KEY: "k"}).json()
    assert first["link"] and again == first | {"link": None}
    assert first["link"].rsplit("/", 2)[-2] not in KeptAnswer.objects.get().body
    schema = api.get("/api/schema/?format=json").json()["components"]["schemas"]
    told = schema["MadeInvitation" if noun == "invitations" else "MadeShare"]
    assert "link" in told["required"] and told["properties"]["link"]["nullable"]
    assert Entry.objects.count() == deeds
