"""The audit log: what gets into it by itself, and that nothing gets out or is changed without a trace."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.db import InternalError, ProgrammingError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from benchlab.audit import chain, heads
from benchlab.audit.models import Entry, Head
from benchlab.team.models import Membership
from benchlab.team.roles import Role
from tests.api.conftest import client_of
from tests.charts import made


def entries(**wanted) -> list[Entry]:
    return list(Entry.objects.filter(**wanted).order_by("pk"))


def tamper(sql: str) -> None:
    """As somebody with the database's own password would."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_entry DISABLE TRIGGER USER")
        cursor.execute(sql)
        cursor.execute("ALTER TABLE audit_entry ENABLE TRIGGER USER")


@pytest.fixture(autouse=True)
def sealed(db) -> None:
    """An empty log with its sealed head, as a migration leaves it: a test that empties all tables takes that along."""
    told = heads.HeadContent()
    Head.objects.update_or_create(pk=Head.ONLY, defaults=asdict(told) | {"seal": heads.seal(told)})


@pytest.fixture
def five(db) -> list[Entry]:
    return [chain.add_entry("destroy", subject=f"disk {number}") for number in range(5)]


def test_an_entry_takes_four_queries(five):
    """Each command that may destroy something waits for its own: the lock, the head, the entry, the head moved on."""
    with CaptureQueriesContext(connection) as seen:
        chain.add_entry("destroy", subject="disk 5")
    said = [one["sql"] for one in seen if "SAVEPOINT" not in one["sql"]]
    assert len(said) == 4, said
    assert chain.check_log().broken == ""


def test_a_page_that_changes_something_is_told_with_what_it_changed(web, user, team):
    host = made.host(team, "lab1")
    web.post(reverse("host-delete", args=[host.pk]))
    (entry,) = entries(action="host-delete")
    assert (entry.actor, entry.team_id, entry.via, entry.outcome) == (
        "alice",
        team.pk,
        "page",
        "done",
    )
    assert "lab1" in entry.subject and str(host.pk) in entry.subject
    assert entry.address == "127.0.0.1"


def test_a_refusal_is_told(user, team):
    Membership.objects.update(role=Role.VIEWER)
    host = made.host(team, "lab1")
    web = Client()
    web.force_login(user)
    web.post(reverse("host-delete", args=[host.pk]))
    (entry,) = entries(action="host-delete")
    assert (entry.outcome, entry.details["status"]) == ("refused", 403)


def test_reading_is_not_told(web, team):
    host = made.host(team, "lab1")
    before = Entry.objects.count()
    web.get(reverse("host-detail", args=[host.pk]))
    assert Entry.objects.count() == before


def test_the_api_tells_noun_action_and_token(user, team):
    api = client_of(user)
    topology = made.topology(team, "raw")
    api.post(f"/api/topologies/{topology.pk}/plan/", {})
    api.post("/api/credentials/", {"name": "k"})
    (entry,) = entries(action="credential.create")
    assert entry.via.startswith("token test (blab_")
    assert "PRIVATE" not in str(entry.details)


def test_logins_are_told_also_those_that_fail(db, user):
    web = Client()
    web.post(reverse("login"), {"username": "alice", "password": "wrong", "login": "alice"})
    assert [(e.actor, e.outcome) for e in entries(action="login")] == [("alice", "refused")]
    assert "wrong" not in str([vars(e) for e in Entry.objects.all()])


def test_the_chain_holds_and_shows_what_was_changed(db):
    for number in range(5):
        chain.add_entry("destroy", subject=f"disk {number}", details={"argv": ["wipefs"]})
    assert chain.check_log().broken == "" and chain.check_log().entries == 5
    third = entries()[2]
    tamper(f"UPDATE audit_entry SET subject = 'another' WHERE id = {third.pk}")
    assert f"entry {third.pk} was changed" in chain.check_log().broken


def test_the_chain_shows_what_was_deleted(db):
    for number in range(5):
        chain.add_entry("destroy", subject=f"disk {number}")
    gone, after = entries()[2:4]
    tamper(f"DELETE FROM audit_entry WHERE id = {gone.pk}")
    assert f"entry {after.pk} does not follow" in chain.check_log().broken


def test_the_chain_shows_that_its_end_was_cut_off(five):
    tamper(f"DELETE FROM audit_entry WHERE id > {five[2].pk}")
    assert "its end was truncated" in chain.check_log().broken


def test_the_chain_shows_that_all_is_gone(five):
    tamper("TRUNCATE audit_entry")
    assert "5 entries were written" in chain.check_log().broken


def test_going_on_hides_nothing(five):
    tamper(f"DELETE FROM audit_entry WHERE id > {five[2].pk}")
    after = chain.add_entry("login")
    assert f"entry {after.pk} does not follow" in chain.check_log().broken


def test_an_entry_put_in_behind_the_end_shows(five):
    row = five[-1]
    row.pk, row.previous = None, row.digest
    row.digest = chain.entry_digest(row)
    row.save()
    assert "5 entries were written" in chain.check_log().broken


def computed_anew() -> None:
    """Forge the log as somebody may who has the database and this program, but no key: every digest fits, the head,
    too.
    """
    previous = ""
    for row in Entry.objects.order_by("pk"):
        row.previous = previous
        previous = chain.entry_digest(row)
        tamper(
            f"UPDATE audit_entry SET previous = '{row.previous}', digest = '{previous}' WHERE id = {row.pk}"
        )
    Head.objects.update(digest=previous)


def test_a_chain_computed_anew_bears_no_seal_of_ours_and_gets_none_by_going_on(five):
    tamper(f"UPDATE audit_entry SET subject = 'another' WHERE id = {five[2].pk}")
    computed_anew()
    assert "is not sealed with a key" in chain.check_log().broken
    chain.add_entry("login")
    assert "is not sealed with a key" in chain.check_log().broken


def test_a_head_that_was_taken_away_shows_also_when_it_goes_on(five):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_head DISABLE TRIGGER USER")
        cursor.execute("DELETE FROM audit_head")
        cursor.execute("ALTER TABLE audit_head ENABLE TRIGGER USER")
    assert "its head is gone" in chain.check_log().broken
    chain.add_entry("login")
    assert chain.check_log().broken


@pytest.fixture
def place(settings, tmp_path) -> Path:
    """The head's file."""
    settings.BENCHLAB_AUDIT_HEAD = str(tmp_path / "audit-head.json")
    return tmp_path / "audit-head.json"


@pytest.fixture
def put_back(db, place, django_capture_on_commit_callbacks) -> Callable[[], None]:
    """Five entries; then the database's state of after the third is put back whole: log, head, seal."""
    made = []
    with django_capture_on_commit_callbacks(execute=True):
        made += [chain.add_entry("destroy", subject=f"disk {number}") for number in range(3)]
    older = Head.objects.values().get()
    with django_capture_on_commit_callbacks(execute=True):
        made += [chain.add_entry("destroy", subject=f"disk {number}") for number in range(3, 5)]
    assert chain.check_log().broken == "" and place.stat().st_mode & 0o777 == 0o600

    def put_back() -> None:
        tamper(f"DELETE FROM audit_entry WHERE id > {made[2].pk}")
        Head.objects.update(**older)

    return put_back


def test_the_file_shows_that_an_older_state_was_put_back(
    put_back, place, django_capture_on_commit_callbacks
):
    put_back()
    assert f"{place} has entry" in chain.check_log().broken
    with django_capture_on_commit_callbacks(execute=True):
        chain.add_entry("login")
    assert f"{place} has entry" in chain.check_log().broken, "going on must not hide it"


def test_what_was_put_back_on_purpose_is_accepted_and_that_is_told(
    put_back, django_capture_on_commit_callbacks
):
    put_back()
    with django_capture_on_commit_callbacks(execute=True):
        chain.accept_end()
    assert chain.check_log().broken == ""
    (entry,) = entries(action="audit-accept")
    assert "has entry" in entry.details["was"]


def test_doctor_accepts_when_told_to(five):
    tamper(f"DELETE FROM audit_entry WHERE id > {five[2].pk}")
    with pytest.raises(CommandError, match="its end was truncated"):
        call_command("doctor", stdout=io.StringIO())
    call_command("doctor", "--accept-audit-log", stdout=io.StringIO())
    call_command("doctor", stdout=io.StringIO())


def test_a_file_that_says_nothing_is_told_and_one_that_cannot_be_written_stops_nobody(
    db, place, django_capture_on_commit_callbacks
):
    place.write_text("[]")
    assert f"{place}, which holds its head, cannot be read" in chain.check_log().broken
    place.unlink()
    place.mkdir()
    with django_capture_on_commit_callbacks(execute=True):
        chain.add_entry("login")
    assert "cannot be read" in chain.check_log().broken


def test_a_new_key_takes_the_seal_over(five, settings):
    old, new = settings.BENCHLAB_KEYS[0], Fernet.generate_key().decode()
    settings.BENCHLAB_KEYS = [new, old]
    assert chain.check_log().broken == ""
    call_command("rotate_keys", stdout=io.StringIO())
    settings.BENCHLAB_KEYS = [new]
    assert chain.check_log().broken == ""
    settings.BENCHLAB_KEYS = [old]
    assert "is not sealed with a key" in chain.check_log().broken


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE audit_entry SET actor = 'x'",
        "DELETE FROM audit_entry",
        "TRUNCATE audit_entry",
        "TRUNCATE audit_entry, audit_head RESTART IDENTITY CASCADE",
        "DELETE FROM audit_head",
    ],
)
def test_the_database_itself_refuses_to_change_it(db, sql):
    chain.add_entry("login", actor="alice")
    with (
        pytest.raises((InternalError, ProgrammingError), match="neither changed nor deleted"),
        transaction.atomic(),
    ):
        connection.cursor().execute(sql)


def test_control_characters_do_not_get_in(db):
    entry = chain.add_entry("login", actor="\x1b[31mroot\n\x00", subject="a" * 2000)
    entry.refresh_from_db()
    assert entry.actor == " [31mroot  " and len(entry.subject) == 500
    assert chain.check_log().broken == ""


def test_doctor_finds_a_changed_entry(db):
    chain.add_entry("login", actor="alice")
    said = io.StringIO()
    call_command("doctor", stdout=said)
    assert "1 entries" in said.getvalue() and "No damage found" in said.getvalue()
    tamper("UPDATE audit_entry SET actor = 'bob'")
    with pytest.raises(CommandError, match="was changed"):
        call_command("doctor", stdout=io.StringIO())


def test_doctor_finds_a_changed_artifact(db, team):
    campaign = made.campaign(team)
    attempts = made.swept(
        campaign,
        made.host(team),
        made.topology(team, "raw"),
        made.workload(team),
        depths=(1,),
        repeats=1,
    )
    artifact = attempts[0].artifacts.first()
    type(artifact).objects.filter(pk=artifact.pk).update(content=b"better numbers")
    with pytest.raises(CommandError, match="Artifacts that were changed"):
        call_command("doctor", stdout=io.StringIO())


def test_the_page_filters_and_gives_csv(web, user, team):
    chain.add_entry("destroy", team_id=team.pk, subject="=cmd|' /C calc'!A0", actor="alice")
    chain.add_entry("campaign-start", team_id=team.pk, actor="alice")
    shown = web.get(reverse("audit-log"), {"action": "destroy"}).text
    assert "calc" in shown and "campaign-start" not in shown
    text = web.get(reverse("audit-csv"), {"action": "destroy"}).text
    assert text.startswith("id,at,") and "'=cmd" in text and "campaign-start" not in text


def test_another_team_sees_nothing_of_it(other_web, team):
    chain.add_entry("destroy", team_id=team.pk, subject="disk 1")
    assert "disk 1" not in other_web.get(reverse("audit-log")).text


@pytest.mark.parametrize("asked", ["host-del", "Host-Delete"])
def test_actions_are_found_by_a_part_in_any_case(client, user, team, asked):
    Membership.objects.filter(user=user).update(role=Role.OWNER)
    for action in ("host-delete", "host-add"):
        chain.add_entry(action, actor="alice", team_id=team.pk)
    client.force_login(user)
    rows = client.get("/audit/", {"action": asked}).context["page"].object_list
    assert [row.action for row in rows] == ["host-delete"]
