"""Stored states of older versions (make.py), taken over: each figure, each byte, those who log in, what goes on.

The numbers compared with were written when the state was made; nothing of them is computed again here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import global_settings, settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.test import Client, override_settings

from benchlab.campaigns.models import Campaign
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import LayoutPhase
from benchlab.up import backup, restore
from benchlab.up.backup import DUMP, KEYS
from benchlab.up.bootstrap import ROOT
from tests.runs import drive, local_host
from tests.states import lab
from tests.states.make import HASHES, MOST, TOLD

HERE = Path(__file__).parent
VERSIONS = sorted(path.parent.name for path in HERE.glob(f"*/{TOLD}"))
# No disk is spare, what was at work waits for a person.
CHANGED_BY_RESTORE = {"phases", "attempts", "spares"}


@contextmanager
def empty_database(name: str) -> Iterator[None]:
    """Everything in the block uses one of its own, on the same server."""
    before = connection.settings_dict["NAME"]
    connection.close()
    with connection._nodb_cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
    connection.settings_dict["NAME"] = name
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = before
        with connection._nodb_cursor() as cursor:
            cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def as_then(place: Path, state: Path) -> Iterator[None]:
    """With the keys of that installation, and passwords as they are stored for real."""
    keys = json.loads((place / KEYS).read_text())
    with (
        pytest.MonkeyPatch.context() as patch,
        override_settings(
            BENCHLAB_KEYS=[keys["BENCHLAB_KEY"]],
            BENCHLAB_AUDIT_HEAD=str(state / "audit-head.json"),
            PASSWORD_HASHERS=global_settings.PASSWORD_HASHERS,
        ),
    ):
        patch.setenv("BENCHLAB_STATE", str(state))
        for name in backup.KEPT:
            patch.delenv(name, raising=False)
        yield


def upgraded(place: Path) -> None:
    """As by `up` of this version on a state directory of the older one."""
    restore._put_back(place / DUMP)
    call_command("prepare")


def restored(place: Path) -> None:
    call_command("restore", str(place), stdout=StringIO())


@pytest.fixture(scope="module")
def taken_over(request, django_db_setup, django_db_blocker, tmp_path_factory) -> Iterator[Path]:
    """Directory of a state; the database is what became of it, for all tests of the module."""
    version, how = request.param
    place, state = HERE / version, tmp_path_factory.mktemp("state")
    with ExitStack() as held:
        held.enter_context(django_db_blocker.unblock())
        held.enter_context(empty_database(f"{settings.DATABASES['default']['NAME']}-{version}"))
        held.enter_context(as_then(place, state))
        how(place)
        yield place


def told(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / TOLD).read_text())
    return found


def now() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(lab.look()))
    return found


# What older versions found and this one does not, unless somebody dismissed it: a worker with one I/O at a time cannot
# miss its depth.
NO_LONGER = "of the 1 asked, so the depth was not reached"

EACH = pytest.mark.parametrize(
    "taken_over", [(version, upgraded) for version in VERSIONS], indirect=True, ids=VERSIONS
)


@EACH
def test_every_figure_and_every_byte_is_as_it_was(taken_over):
    before, after = told(taken_over), now()
    opens = before.pop("opens")
    assert after.keys() == before.keys() and opens
    for name, rows in before.items():
        assert after[name] == rows, name
    assert min(len(rows) for rows in before.values()) > 0
    assert len(before["figures"]) == backup.read(taken_over).rows["runs_measurement"]


@EACH
def test_people_and_their_keys_are_let_in_and_see_it(taken_over):
    opens = told(taken_over)["opens"]
    browser = Client()
    assert browser.get("/").status_code == 302
    browser.post("/login/", {"login": lab.USER, "password": lab.PASSWORD})
    shown = browser.get(f"/campaigns/{opens['campaign']}/")
    assert shown.status_code == 200 and "over" in shown.content.decode()
    header = {"Authorization": f"Token {opens['token']}"}
    listed = Client(headers=header).get("/api/campaigns/").json()
    assert {"over", "going on", "draft"} <= {row["name"] for row in listed["results"]}
    assert Client().get(f"/s/{opens['share']}/", follow=True).status_code == 200


@EACH
def test_no_damage_is_found_and_reading_it_again_changes_nothing(taken_over):
    before, out = now(), StringIO()
    call_command("doctor", stdout=out)
    assert "No damage found." in out.getvalue()
    call_command("reparse", stdout=out, stderr=out)
    # The made-up results of lab.py are those: their figures stay.
    assert " 5 with something that could not be read" in out.getvalue()
    after = now()
    before["findings"] = [
        [*row, sentence, note]
        for *row, sentence, note in before["findings"]
        if note or not sentence.endswith(NO_LONGER)
    ]
    for name, rows in before.items():
        assert after[name] == rows, name


@pytest.mark.slow
@pytest.mark.parametrize(
    "taken_over", [(VERSIONS[0], restored)], indirect=True, ids=[f"{VERSIONS[0]} restored"]
)
def test_a_backup_of_it_is_restored_and_a_campaign_goes_on(taken_over, tmp_path):
    before, after = told(taken_over), now()
    assert after["log"] == [*before["log"], after["log"][-1]]
    for name in before.keys() - CHANGED_BY_RESTORE - {"opens", "log"}:
        assert after[name] == before[name], name
    assert after["spares"] == []
    draft = Campaign.objects.get(name="draft")
    tmp_path.chmod(0o755)
    with local_host.served(tmp_path / "sshd") as (state, port):
        here = local_host.register(draft.team, state, port)
        layers = [{"kind": "directory", "options": {"path": str(tmp_path / "data")}, "devices": []}]
        Layout.objects.filter(campaign=draft).update(host=here, stack=layers)
        draft.runs.update(host=here)
        drive.plan_and_start(draft)
        drive.to_the_end(draft, 120)
    ended = Attempt.objects.get(run__campaign=draft)
    assert ended.outcome == "succeeded" and ended.measurements.exists()
    assert Layout.objects.get(campaign=draft).phase == LayoutPhase.DONE


def test_migrations_of_a_version_are_never_edited():
    """Whoever has applied one would not get the change. What a later one stands for may go."""
    disk = MigrationLoader(None).disk_migrations or {}
    replaced = {step for one in disk.values() for step in one.replaces}
    for version in VERSIONS:
        kept = HERE / version / HASHES
        hashes = json.loads(kept.read_text()) if kept.exists() else {}
        for name, was in hashes.items():
            path = ROOT / name
            if (path.parts[-3], path.stem) in replaced and not path.exists():
                continue
            assert path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == was, (
                f"{name} is a part of {version}: it cannot be changed any more. Write a new one."
            )


def test_states_are_small_and_belong_to_nobody():
    for version in VERSIONS:
        files = list((HERE / version).iterdir())
        assert sum(path.stat().st_size for path in files) <= MOST
        assert backup.read(HERE / version).machine == ""
