"""Backups by `manage.py`, of a real PostgreSQL into another: what comes back, and what is protected then."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.fernet import Fernet

from benchlab.runs.states import LayoutPhase
from benchlab.up import backup, database, postgres, restore, store_programs
from benchlab.up.backup import DUMP, KEYS, MANIFEST
from benchlab.up.bootstrap import ROOT
from benchlab.up.state import State
from benchlab.up.trouble import Trouble
from tests.up.test_life import NOT_PASSED_ON

pytestmark = pytest.mark.slow
TRIED = (*NOT_PASSED_ON, "BENCHLAB_NO_BOOTSTRAP", "BENCHLAB_AUDIT_HEAD", "DJANGO_SETTINGS_MODULE")


STATES = Path(__file__).parents[1] / "states"


class Installation:
    """A state directory, and Django's commands on it, each of which starts its PostgreSQL."""

    def __init__(self, place: Path, **env: str) -> None:
        self.state = State(place)
        kept = {name: value for name, value in os.environ.items() if name not in TRIED}
        self.env = {**kept, "BENCHLAB_STATE": str(place), **env}

    def manage(self, *words: str, fails: bool = False) -> str:
        argv = [sys.executable, "manage.py", *words]
        done = subprocess.run(
            argv, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=120
        )
        assert bool(done.returncode) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def call(self, function: str) -> str:
        code = f"from tests.up import lab_to_back_up; lab_to_back_up.{function}()"
        return self.manage("shell", "--no-imports", "-c", code)

    def look(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.call("look").strip().splitlines()[-1])
        return found


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    # Not pytest's own, which PostgreSQL's user may not enter.
    with tempfile.TemporaryDirectory(prefix="benchlab-backup-", ignore_cleanup_errors=True) as name:
        found = Path(name)
        found.chmod(0o755)
        yield found


@pytest.fixture(scope="module")
def lab(place: Path) -> Installation:
    made = Installation(place / "lab")
    made.manage("prepare")
    made.call("make")
    return made


@pytest.fixture(scope="module")
def kept(lab: Installation, place: Path) -> Path:
    said = lab.manage("backup", str(place / "kept"))
    assert "Keep it as you keep SSH keys" in said
    return place / "kept"


@pytest.fixture(scope="module")
def there(kept: Path, place: Path) -> Installation:
    return Installation(place / "there")


@pytest.fixture(scope="module")
def said(there: Installation, kept: Path) -> str:
    return there.manage("restore", str(kept))


def test_it_is_its_owners_and_says_what_is_in_it(kept):
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept.iterdir()} == {0o600}
    assert sorted(path.name for path in kept.iterdir()) == [DUMP, KEYS, MANIFEST]
    assert not list(kept.parent.glob("*unfinished*"))
    made = backup.read(kept)
    assert made.rows["runs_measurement"] > 0 and made.rows["runs_artifact"] > 0
    assert made.credentials == 1
    backup.require_whole(kept, made)


@pytest.mark.one_in(1)
def test_all_comes_back_and_nothing_is_harmed_by_it(lab, there, said):
    before, after = lab.look(), there.look()
    assert after["figures"] == before["figures"] and after["figures"]
    assert after["key"] == before["key"]  # opened by the keys that came with it
    assert (before["spares"], after["spares"]) == (1, 0)
    at_work, waits = ["host0", "host1", "host2"], "host3"
    assert after["phases"] == {
        **dict.fromkeys(at_work, LayoutPhase.STUCK),
        waits: LayoutPhase.WAITING,
    }
    assert after["outcomes"] == {**dict.fromkeys(at_work, "interrupted"), waits: ""}
    assert after["paused"] == ["going on"] and before["paused"] == []
    for text in after["troubles"]:
        assert "restored from a backup of" in text and "See what stands on host" in text
    assert after["log"] == [*before["log"], "restore"]
    assert after["next"] > before["highest"] + restore.GIVEN_SINCE  # bl5 there is no bl5 here
    for part in (
        "No disk is spare now (1 were)",
        "wait for a person now: 3",
        "are paused now: 1",
        "No damage found.",
    ):
        assert part in said


def test_it_goes_into_an_empty_database_only(there, said, kept):
    before = there.look()
    refused = there.manage("restore", str(kept), fails=True)
    assert "not empty" in refused and "BENCHLAB_STATE" in refused
    after = there.look()
    assert {**after, "next": 0} == {**before, "next": 0}


def test_one_without_keys_wants_them(lab, place):
    said = lab.manage("backup", "--without-keys", str(place / "keyless"))
    assert "keep BENCHLAB_KEY" in said and not (place / "keyless" / KEYS).exists()
    refused = Installation(place / "a").manage("restore", str(place / "keyless"), fails=True)
    assert "BENCHLAB_KEY in the environment" in refused and "Nothing was changed" in refused
    key = json.loads((lab.state.path / "secrets.json").read_text())["BENCHLAB_KEY"]
    brought = Installation(place / "a", BENCHLAB_KEY=key)
    assert "No damage found." in brought.manage("restore", str(place / "keyless"))
    assert brought.look()["key"] == lab.look()["key"]


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
def test_ssh_keys_in_a_dump_are_tried(version, settings):
    """Backups of before fingerprints tell nothing of their keys."""
    made = STATES / version
    said = replace(backup.read(made), keys=[])
    settings.BENCHLAB_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(Trouble, match=r"these SSH keys: lab\. .*YOURS,OLD.*Nothing was changed"):
        restore.require(made, said, {})
    restore.require(made, said, json.loads((made / KEYS).read_text()))


@pytest.mark.night
def test_another_key_is_told_before_anything_is_written(lab, kept, place):
    key = json.loads((lab.state.path / "secrets.json").read_text())["BENCHLAB_KEY"]
    other = Fernet.generate_key().decode()
    before = backup.read(kept)
    assert before.keys == [backup.fingerprint(key)]
    older = copied(kept, place / "without fingerprints", keys=[])
    for made, told in ((kept, before.keys[0]), (older, "another BENCHLAB_KEY; the one given here")):
        brought = Installation(place / "another key", BENCHLAB_KEY=other)
        refused = brought.manage("restore", str(made), fails=True)
        for part in (told, backup.fingerprint(other), "these SSH keys: lab.", "BENCHLAB_KEY=YOURS,OLD",
                     "--without-ssh-keys", "Nothing was changed"):  # fmt: skip
            assert part in refused, refused
        assert key not in refused and other not in refused
    both = Installation(place / "another key", BENCHLAB_KEY=f"{other},{key}")
    assert "No damage found." in both.manage("restore", str(kept))
    assert both.look()["key"] == lab.look()["key"]


@pytest.mark.night
def test_a_person_may_go_on_without_the_ssh_keys(kept, place):
    other = Fernet.generate_key().decode()
    where = Installation(place / "keys lost", BENCHLAB_KEY=other)
    said = where.manage("restore", "--without-ssh-keys", str(kept))
    assert "SSH keys that no BENCHLAB_KEY decrypts: lab" in said
    assert "Store new SSH keys" in said
    assert "No damage" not in where.manage("doctor", "--accept-audit-log", fails=True)
    assert "audit log is broken" not in where.manage("doctor", fails=True)


def test_what_was_made_on_another_machine_is_not_this_one(kept, place):
    other = copied(kept, place / "other", machine="0" * 32)
    moved = Installation(place / "moved")
    moved.manage("restore", str(other))
    after = moved.look()
    assert after["local"] == []
    assert f"{socket.gethostname()} before 1" in after["hosts"]


@pytest.mark.skipif(not backup.machine_id(), reason="this machine has no /etc/machine-id")
def test_this_machine_stays_this_machine(lab, there, said):
    assert there.look()["local"] == lab.look()["local"] == [socket.gethostname()]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": 2}, "has format 2, this BenchLab reads 1"),
        ({"made": "yesterday"}, "is not a backup: its manifest"),
        ({"credentials": "many"}, "is not a backup: its manifest"),
        ({"migrations": [["runs", "0099_later"]]}, "newer BenchLab.*does not know runs.0099_later"),
        ({"migrations": [["runs", "0001_squashed_2"]]}, "The backup is from before 2026-11-27"),
        ({"size": 12}, "is damaged"),
        ({"sha256": "0" * 64}, "is damaged"),
        ({"rows": {"runs_run": 7}}, "Not all rows came back: .* of None"),
    ],
)
def test_what_is_not_whole_is_refused(kept, place, change, told):
    name = re.sub(r"\W+", " ", f"{change}")[:60].strip()
    bad = copied(kept, place / f"bad {name}", **change)
    where = Installation(place / f"into {name}")
    refused = where.manage("restore", str(bad), fails=True)
    assert re.search(told, refused), refused


@pytest.mark.one_in(1)
def test_nothing_starts_where_a_restore_was_cut_off(kept, place):
    """It ended when the rows were back, and disks spare as they were then."""
    where = Installation(place / "cut")
    code = (
        "from pathlib import Path; from benchlab.up import restore, state\n"
        "restore._made_safe = lambda said: exit(9)\n"
        f"restore.restore(Path({str(kept)!r}), state.state_from_environment())"
    )
    where.manage("shell", "--no-imports", "-c", code, fails=True)
    assert where.look()["spares"] == 1
    assert "did not finish" in where.manage("prepare", fails=True)
    assert "not empty" in where.manage("restore", str(kept), fails=True)


def test_one_that_never_put_a_row_back_is_done_again(kept, place):
    bad = copied(kept, place / "no dump")
    # What is in it stands at its beginning.
    (bad / DUMP).write_bytes((bad / DUMP).read_bytes()[:-2000])
    said = json.loads((bad / MANIFEST).read_text())
    said |= {"size": (bad / DUMP).stat().st_size, "sha256": backup.digest(bad / DUMP)}
    (bad / MANIFEST).write_text(json.dumps(said))
    where = Installation(place / "again")
    assert "pg_restore failed" in where.manage("restore", str(bad), fails=True)
    assert "did not finish" in where.manage("prepare", fails=True)
    assert "No damage found." in where.manage("restore", str(kept))
    assert "did not finish" not in where.manage("prepare")


def test_a_directory_that_is_no_backup_is_named(place):
    with pytest.raises(
        Trouble, match=rf"{place} is not a backup: its manifest\.json cannot be read"
    ):
        backup.read(place)


def test_nothing_is_written_over(lab, kept):
    before = {path: path.read_bytes() for path in kept.iterdir()}
    assert "is there already" in lab.manage("backup", str(kept), fails=True)
    assert {path: path.read_bytes() for path in kept.iterdir()} == before


@pytest.mark.night
def test_one_that_fails_leaves_nothing(lab, place):
    missing = place / "nowhere" / "kept"
    assert "Cannot write the backup" in lab.manage("backup", str(missing), fails=True)
    broken = Installation(lab.state.path, BENCHLAB_PG_BIN=str(without_dump(place)))
    assert "pg_dump" in broken.manage("backup", str(place / "failed"), fails=True)
    assert not list(place.glob("failed*"))


@pytest.mark.parametrize(
    ("server", "fits"), [(14, False), (15, True), (17, True), (18, True), (19, False)]
)
def test_programs_fit_the_server(monkeypatch, server, fits):
    monkeypatch.setattr(
        backup, "connection", SimpleNamespace(get_database_version=lambda: (server, 4))
    )
    monkeypatch.setattr(backup, "run", lambda *words: "")
    if fits:
        backup.require_programs()
        return
    with pytest.raises(
        Trouble, match=rf"PostgreSQL {server}, .* of 18.*/usr/lib/postgresql/{server}/bin"
    ):
        backup.require_programs()


def clients(place: Path) -> Path:
    """What the container's image has of PostgreSQL: no server."""
    there = place / "clients"
    there.mkdir(exist_ok=True)
    for name in ("pg_dump", "pg_restore", "psql"):
        if not (there / name).exists():
            (there / name).symlink_to(store_programs.postgres_directory() / name)
    return there


@contextmanager
def server_of(binaries: Path, place: Path) -> Iterator[str]:
    """A PostgreSQL of other programs than those that back it up; its URL."""
    state = State(place)
    state.create()
    with pytest.MonkeyPatch.context() as given:
        given.setenv("BENCHLAB_PG_BIN", str(binaries))
        cluster = postgres.plan(state)
    with database.served(cluster, throw_away=True):
        yield cluster.url


OLD_SERVERS = {"16": store_programs.postgres_directory().parents[1] / "pginstall/bin"} | {
    path.parents[1].name: path.parent
    for path in Path("/usr/lib/postgresql").glob("1[567]/bin/postgres")
}


@pytest.mark.night
@pytest.mark.parametrize("version", sorted(OLD_SERVERS))
def test_older_servers_by_the_programs_that_we_have(kept, lab, place, version):
    """What an older server holds is backed up; into one goes what another had, all of it or nothing."""
    with server_of(OLD_SERVERS[version], place / f"server{version}") as url:
        key = json.loads((lab.state.path / "secrets.json").read_text())["BENCHLAB_KEY"]
        given = {"DATABASE_URL": url, "BENCHLAB_KEY": key, "BENCHLAB_PG_BIN": str(clients(place))}
        old = Installation(place / f"lab{version}", **given)
        bad = copied(kept, place / f"cut off {version}")
        whole = (bad / DUMP).read_bytes()
        (bad / DUMP).write_bytes(whole[: len(whole) * 3 // 4])
        said = json.loads((bad / MANIFEST).read_text())
        said |= {"size": (bad / DUMP).stat().st_size, "sha256": backup.digest(bad / DUMP)}
        (bad / MANIFEST).write_text(json.dumps(said))
        assert "pg_restore failed" in old.manage("restore", str(bad), fails=True)
        assert "No damage found." in old.manage("restore", str(kept))
        assert old.look()["figures"] == lab.look()["figures"]
        old.manage("backup", str(place / f"of {version}"))
    again = Installation(place / f"of {version} again", BENCHLAB_KEY=key)
    assert "No damage found." in again.manage("restore", str(place / f"of {version}"))


def test_psql_that_ends_early_ends_the_writer_too(tmp_path):
    script = tmp_path / "script"
    script.write_bytes(b"SET transaction_timeout = 0;\n" + b"SELECT 1;\n" * 200_000)
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as psql, script.open("rb") as head:
        psql.wait()
        restore._pass_on(head, psql.stdin)
        assert head.closed


def copied(kept: Path, to: Path, **change: Any) -> Path:
    to.mkdir()
    for path in kept.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    made = json.loads((kept / MANIFEST).read_text()) | change
    (to / MANIFEST).write_text(json.dumps(made))
    return to


def without_dump(place: Path) -> Path:
    """PostgreSQL's programs, but a pg_dump that fails in its midst."""
    bin = place / "bin"
    bin.mkdir()
    for path in store_programs.postgres_directory().iterdir():
        (bin / path.name).symlink_to(path)
    (bin / "pg_dump").unlink()
    (bin / "pg_dump").write_text("#!/bin/sh\necho half >&2\nexit 1\n")
    (bin / "pg_dump").chmod(0o755)
    return bin
