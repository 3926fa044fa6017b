"""An answer for many at once is made once: none is told what is too old, no failure is another's, memory is bounded."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.test import RequestFactory

from benchlab.runs import events
from benchlab.runs.events import MAX_AGE_S, ChangeListener
from benchlab.runs.events import MAX_CHANNELS as MOST_HEARD
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role
from benchlab.web import shared_answers
from benchlab.web.shared_answers import ANY_TIME, SharedAnswers, access_rights, may_be_shared


def counted(made: list[int], takes: float = 0.0):
    def make() -> str:
        made.append(len(made))
        time.sleep(takes)
        return f"answer {made[-1]}"

    return make


def test_all_who_ask_at_once_are_told_the_same():
    kept, made, asked = SharedAnswers[str](), list[int](), threading.Barrier(8)

    def ask(_: int) -> str:
        asked.wait()
        return kept.get_or_make("page", time.monotonic() - 1, counted(made, 0.1))

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(8))) == {"answer 0"}
    assert made == [0]


def test_none_is_told_what_is_older_than_they_may_be_told():
    kept, made = SharedAnswers[str](), list[int]()
    assert kept.get_or_make("page", ANY_TIME, counted(made)) == "answer 0"
    assert kept.get_or_make("page", ANY_TIME, counted(made)) == "answer 0"
    assert kept.get_or_make("page", time.monotonic(), counted(made)) == "answer 1"


def test_what_was_begun_before_is_too_old_though_it_ended_after():
    """It may have been read before the change."""
    kept, made, begun = SharedAnswers[str](), list[int](), threading.Event()

    def slow() -> str:
        begun.set()
        time.sleep(0.2)
        return "old"

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(kept.get_or_make, "page", ANY_TIME, slow)
        begun.wait()
        second = pool.submit(kept.get_or_make, "page", time.monotonic(), counted(made))
        assert (first.result(), second.result()) == ("old", "answer 0")


def test_another_key_is_another_answer_and_waits_for_none():
    kept, made = SharedAnswers[str](), list[int]()

    def asks_for_another() -> str:
        with ThreadPoolExecutor(1) as pool:
            return "beside " + pool.submit(kept.get_or_make, "b", ANY_TIME, counted(made)).result(
                10
            )

    assert kept.get_or_make("a", ANY_TIME, asks_for_another) == "beside answer 0"


def test_a_failure_is_nobody_elses():
    kept, made = SharedAnswers[str](), list[int]()

    def fails() -> str:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        kept.get_or_make("page", ANY_TIME, fails)
    assert kept.get_or_make("page", ANY_TIME, counted(made)) == "answer 0"


def test_so_much_is_kept_and_what_was_asked_for_last():
    kept = SharedAnswers[bytes](100)
    for name in ("a", "b", "a", "c"):
        assert len(kept.get_or_make(name, ANY_TIME, lambda: b"x" * 40)) == 40
    assert list(kept._kept) == ["a", "c"]
    assert len(kept.get_or_make("larger than all", ANY_TIME, lambda: b"x" * 1000)) == 1000
    assert not kept._kept


def test_keys_are_not_kept_without_end():
    kept = SharedAnswers[str]()
    for number in range(2 * shared_answers.MAX_ANSWERS):
        kept.get_or_make(number, ANY_TIME, lambda: "")
    assert len(kept._kept) == shared_answers.MAX_ANSWERS


def test_keys_of_what_fails_are_not_kept_without_end():
    """Nobody but who asks for what is refused may be there: no answer of another's would make room."""
    kept = SharedAnswers[str]()
    for number in range(2 * shared_answers.MAX_ANSWERS):
        with pytest.raises(ZeroDivisionError):
            kept.get_or_make(number, ANY_TIME, lambda: f"{1 / 0}")
    assert len(kept._kept) <= shared_answers.MAX_ANSWERS


def test_a_long_address_is_not_kept_nor_a_strangers():
    request = RequestFactory().get("/", {"q": "x" * shared_answers.MAX_QUERY_LENGTH})
    request.user = User(username="alice")
    assert not may_be_shared(request)
    request = RequestFactory().get("/")
    request.user = AnonymousUser()
    assert not may_be_shared(request)
    request.user = User(username="alice")
    assert may_be_shared(request)


@pytest.mark.django_db
def test_equal_rights_are_the_same_roles_in_the_same_teams():
    teams = [Team.objects.create(name=name) for name in "ab"]

    def person(name: str, *roles: tuple[Team, Role], admin: bool = False) -> User:
        made = User.objects.create_user(name, is_superuser=admin)
        for team, role in roles:
            Membership.objects.create(team=team, user=made, role=role)
        return made

    a, b = teams
    people = [
        person("one", (a, Role.VIEWER)), person("two", (a, Role.OPERATOR)), person("three", (a, Role.OWNER)),
        person("four", (a, Role.VIEWER), (b, Role.OWNER)), person("five", (b, Role.VIEWER)), person("six"),
        person("seven", (a, Role.OWNER), admin=True),
    ]  # fmt: skip
    assert len({access_rights(one) for one in people}) == len(people)
    again = person("eight", (b, Role.OWNER), (a, Role.VIEWER))  # in another order
    assert access_rights(again) == access_rights(people[3])


# What was heard


def test_who_does_not_listen_knows_of_nothing_that_it_is_still_so():
    ear = ChangeListener()
    before = time.monotonic()
    assert ear.current_since(1) >= before
    ear.start_listening()
    ear.stop_listening()
    assert ear.current_since(1) >= before


def test_what_was_made_since_the_last_change_is_still_so(monkeypatch):
    ear, now = ChangeListener(), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    ear.start_listening()
    now[0] += 0.5
    assert ear.current_since(1) == 1000.0
    ear.record_change(events.campaign_channel(1))
    now[0] += 0.25
    assert (ear.current_since(1), ear.current_since(2)) == (1000.5, 1000.0)
    now[0] += 60  # how long something still takes no change tells
    assert ear.current_since(1) == now[0] - MAX_AGE_S


def test_what_is_heard_is_not_kept_for_ever(monkeypatch):
    ear, now = ChangeListener(), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for number in range(5 * MOST_HEARD):
        now[0] += 1.0
        ear.record_change(events.campaign_channel(number))
        assert len(ear._heard) <= MOST_HEARD
