"""Requests at the same moment: the slower one is told so, by API and page, and nothing is an error of the server's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.test import Client

from benchlab.audit.models import Entry
from benchlab.campaigns.models import Workload
from benchlab.team import invitations
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role
from benchlab.topologies import services
from benchlab.topologies.models import Topology
from benchlab.web import errors
from tests.api.conftest import DIRECTORY, client_of, is_problem
from tests.charts import made

pytestmark = pytest.mark.django_db(transaction=True)
TOPOLOGY = {"name": "same", "stack": DIRECTORY}
WORKLOAD = {"name": "same", "tool": "dd", "options": {}}


@pytest.fixture(autouse=True)
def members(user) -> None:
    User.objects.filter(pk=user.pk).update(is_superuser=True)
    Membership.objects.update(role=Role.OWNER)


@contextmanager
def faster(make: Callable[[], Any]) -> Iterator[None]:
    """Somebody else has made it and not committed yet; they do as soon as the block's request waits for them."""
    made_it, trouble = threading.Event(), []

    def other() -> None:
        try:
            with transaction.atomic():
                make()
                made_it.set()
                _until_somebody_waits()
        except BaseException as error:
            trouble.append(error)
            raise
        finally:
            made_it.set()
            connection.close()

    thread = threading.Thread(target=other)
    thread.start()
    made_it.wait(10)
    try:
        yield
    finally:
        thread.join()
        assert not trouble, trouble


def _until_somebody_waits() -> None:
    until = time.monotonic() + 20
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute(waiting)
            if cursor.fetchone():
                return
            time.sleep(0.02)
    raise AssertionError("nobody waited: the request never came to the write")


def test_twenty_equal_posts_make_one(user, team):
    def post(_: int) -> int:
        try:
            return int(client_of(user).post("/api/topologies/", TOPOLOGY).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(post, range(20)))
    assert answers.count(201) == 1 and set(answers) <= {201, 400, 409}, answers
    assert Topology.objects.count() == 1


def topology(team: Team) -> Any:
    return Topology.objects.create(team=team, name="same", stack=DIRECTORY)


def workload(team: Team) -> Any:
    return Workload.objects.create(team=team, name="same", tool="dd", options={})


def another_team(team: Team) -> Any:
    return Team.objects.create(name="same")


@pytest.mark.parametrize(
    ("make", "path", "body", "says"),
    [
        (topology, "/api/topologies/", TOPOLOGY, "There is a topology with the same name already"),
        (workload, "/api/workloads/", WORKLOAD, "There is a workload with the same name already"),
        (another_team, "/api/teams/", {"name": "same"}, "There is a team with the same name already"),
    ],
)  # fmt: skip
def test_who_is_slower_is_told(user, team, make, path, body, says):
    api = client_of(user)
    with faster(lambda: make(team)):
        answer = api.post(path, body)
    assert says in is_problem(answer, 409)["detail"]
    assert api.post(path, body).status_code == 400  # as always, when it was there before


@pytest.mark.parametrize("noun", ["topologies", "teams"])
def test_who_renames_slower_is_told(user, team, noun):
    row = team if noun == "teams" else made.topology(team, "raw")
    api = client_of(user)
    with faster(lambda: another_team(team) if noun == "teams" else topology(team)):
        more = {} if noun == "teams" else {"stack": DIRECTORY}
        answer = api.patch(f"/api/{noun}/{row.pk}/", {"name": "same", **more})
    is_problem(answer, 409)
    row.refresh_from_db()
    assert row.name != "same"


def test_with_a_key_the_same_answer_comes_again(user, team):
    api = client_of(user)
    key: dict[str, Any] = {"HTTP_IDEMPOTENCY_KEY": "k1"}
    with faster(lambda: topology(team)):
        first = api.post("/api/topologies/", TOPOLOGY, **key)
    again = api.post("/api/topologies/", TOPOLOGY, **key)
    assert (first.status_code, again.status_code) == (409, 409)
    assert again.headers["Idempotency-Replayed"]


def test_a_page_tells_it_too_and_so_does_the_audit_log(web, team):
    with faster(lambda: another_team(team)):
        answer = web.post("/site/teams/", {"name": "same"})
    assert answer.status_code == 409
    assert "There is a team with the same name already" in answer.text
    (entry,) = Entry.objects.filter(action="site-teams")
    assert entry.outcome == "refused"


def test_two_persons_take_the_same_name(team, user):
    _, link = invitations.invite(team, Role.VIEWER, user)
    sent = {"username": "dora", "email": "", "password": "harbour-lamp-9"}
    web = Client()
    with faster(lambda: User.objects.create_user("dora")):
        answer = web.post(f"/join/{link}/", sent)
    assert answer.status_code == 409 and "user with the same username" in answer.text
    assert Membership.objects.filter(user__username="dora").count() == 0
    answer = web.post(f"/join/{link}/", sent | {"username": "dora2"})
    assert answer.status_code == 302, "the invitation is not used up"


def test_what_refers_to_something_removed_is_a_clash(team):
    with pytest.raises(DatabaseError) as told, transaction.atomic():
        Topology.objects.create(team_id=team.pk + 999, name="x", stack=DIRECTORY)
    assert "was removed at the same moment" in errors.conflict_message(told.value)


def test_a_row_removed_before_it_was_saved_is_a_clash(team):
    row = made.topology(team, "raw")
    Topology.objects.filter(pk=row.pk).delete()
    with pytest.raises(DatabaseError) as told:
        row.save(update_fields=["name"])
    assert errors.conflict_message(told.value) == "It was removed at the same moment."


def test_what_was_removed_does_not_come_back_by_a_change(team):
    row = made.topology(team, "raw")
    Topology.objects.filter(pk=row.pk).delete()
    with pytest.raises(DatabaseError) as told:
        services.change_topology(row, name="back", stack=DIRECTORY)
    assert errors.conflict_message(told.value) and not Topology.objects.exists()


def test_other_failures_of_the_database_stay_failures(team):
    with pytest.raises(DatabaseError) as told, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT nothing")
    assert errors.conflict_message(told.value) == "" == errors.conflict_message(ValueError("x"))
