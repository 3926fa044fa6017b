# SPDX-License-Identifier: Apache-2.0
"""A backup put back into an empty database, so that nothing that has happened since can be harmed by it.

What stood on a host when the backup was made may be gone, a disk that was spare may hold somebody's data now, and the
installation that made it may still be at work. So afterwards no disk is spare, what was built is left to a person, what
waited is paused, and names that hosts may know are not given again.

Before anything is written, the keys that the backup needs are compared with those that the restore would use.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone
from psycopg.conninfo import make_conninfo

from agents.contracts import Reason
from benchlab import compatibility, env
from benchlab.audit.chain import add_entry
from benchlab.campaigns.models import Campaign
from benchlab.engine.phases import end_attempts
from benchlab.hosts.models import Device, Host
from benchlab.runs import transitions
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict
from benchlab.up import backup, database
from benchlab.up.backup import DUMP, KEYS, Manifest, fingerprint
from benchlab.up.database import is_given
from benchlab.up.state import State, read_json, write_json
from benchlab.up.trouble import Trouble

# pg_restore sets it since 17, and older servers refuse unknown settings. It stands at the head of the script.
NOT_BEFORE_17 = b"SET transaction_timeout = 0;"
HEAD_ENDS = b"SELECT pg_catalog.set_config("
# Layouts and what their runs leave on a host are named by their ids: so many may have been given since the backup.
GIVEN_SINCE = 100_000
NAMED_BY_ID = (Layout, Attempt)
AT_WORK = (LayoutPhase.PROVISIONING, LayoutPhase.READY, LayoutPhase.TEARING_DOWN)
INTERRUPTED = (
    "The database was restored from a backup of {at}, made while {name} was at work on {host}."
)
LOOK = "See what stands on {host} now; mark disks that are still spare, then tear down again, or release the host."


@dataclass(frozen=True, slots=True)
class Restored:
    """The changes of a restore besides putting the rows back."""

    manifest: Manifest
    # disks that were spare
    spares: int
    # layouts that were at work on a host
    stopped: int
    # campaigns with layouts that waited
    paused: int


def restore(place: Path, state: State, with_ssh_keys: bool = True) -> Restored:
    """Restore a backup. Raises Trouble before it changes anything.

    It refuses an incomplete backup, one whose version this BenchLab cannot read, a server that cannot take it, missing
    keys and a database that is not empty.
    """
    manifest = backup.read(place)
    _require_known(manifest)
    backup.require_whole(place, manifest)
    backup.require_programs()
    backup.require_readable(place / DUMP)
    keys = chosen(place, state)
    if with_ssh_keys:
        require(place, manifest, keys)
    _require_empty(state)
    database.begin()
    _put_back(place / DUMP)
    _require_rows(manifest)
    _take_over(keys, state)
    call_command("migrate", interactive=False, verbosity=0)
    return _made_safe(manifest)


def _require_empty(state: State) -> None:
    tables = connection.introspection.table_names()
    if tables and tables != [database.TABLE]:
        raise Trouble(
            f"This database is not empty (it has {len(tables)} tables, {tables[0]} among them). A backup goes into a "
            f"new one: name another state directory with BENCHLAB_STATE, or move {state.path} away."
        )


def _put_back(dump: Path) -> None:
    """Restore the dump completely or not at all."""
    # libpq would read a plain name with "=" in it as a connection string.
    name = make_conninfo(dbname=str(connection.settings_dict["NAME"]))
    if connection.get_database_version()[0] < 17:
        _put_back_as_script(dump, name)
        return
    how = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-acl", f"--dbname={name}"]
    backup.run("pg_restore", *how, str(dump))


def _put_back_as_script(dump: Path, name: str) -> None:
    """Restore with psql, for a server that is older than some settings that pg_restore writes.

    If the script was cut off, psql is killed: at the end of its input it would commit what it has.
    """
    writer = [backup.program("pg_restore"), "--no-owner", "--no-acl", "--file=-", str(dump)]
    reader = [backup.program("psql"), "--no-psqlrc", "--no-password", "--quiet", f"--dbname={name}"]
    reader += ["--single-transaction", "--set=ON_ERROR_STOP=1", "--file=-"]
    pipe, env = subprocess.PIPE, backup.environment(connected=True)
    with tempfile.TemporaryFile() as output_file, tempfile.TemporaryFile() as wrong:
        with (
            subprocess.Popen(
                writer, env=backup.environment(False), stdout=pipe, stderr=wrong
            ) as process,
            subprocess.Popen(
                reader, env=env, stdin=pipe, stdout=subprocess.DEVNULL, stderr=output_file
            ) as psql,
        ):
            assert process.stdout and psql.stdin
            _pass_on(process.stdout, psql.stdin)
            if process.wait():
                psql.kill()
        # An error of psql comes first, as it cut the writer off. A negative exit code means that we killed it.
        ends = [("pg_restore", process.returncode, wrong), ("psql", psql.returncode, output_file)]
        for name, code, file in ends[::-1] if psql.returncode > 0 else ends:
            if code:
                file.seek(0)
                raise backup.failed(name, code, file.read().decode(errors="replace"))


def _pass_on(script: IO[bytes], to: IO[bytes]) -> None:
    """Pass the script on without that one line of its head.

    psql may have ended with an error, which it reports itself.
    """
    try:
        for line in script:
            if line.rstrip() != NOT_BEFORE_17:
                to.write(line)
            if line.startswith(HEAD_ENDS):
                break
        shutil.copyfileobj(script, to)
        to.flush()
    except BrokenPipeError:
        # Close both ends: the writer would wait for ever, and the buffered rest cannot reach the reader.
        script.close()
        with suppress(BrokenPipeError):
            to.close()


def _require_known(manifest: Manifest) -> None:
    """Raise Trouble if the backup or this BenchLab is too old for the other."""
    applied = set(manifest.migrations)
    what = f"The backup ({manifest.version}, {manifest.at})"
    if refused := compatibility.newer(what, applied) or database.refusal("The backup", applied):
        raise Trouble(refused)


def _require_rows(manifest: Manifest) -> None:
    """Check that the restored tables have as many rows as the backup."""
    now = {name: rows for name, rows in backup.counted().items() if name != database.TABLE}
    if wrong := [
        name for name in sorted(manifest.rows | now) if manifest.rows.get(name) != now.get(name)
    ]:
        differences = ", ".join(
            f"{name} {now.get(name)} of {manifest.rows.get(name)}" for name in wrong[:5]
        )
        raise Trouble(
            f"Not all rows came back: {differences}. Do not use this database; move it away and try again."
        )


def _take_over(keys: Mapping[str, str], state: State) -> None:
    """Store the keys for every later start, and use them for the rest of this one.

    This one still seals an entry of the audit log.
    """
    if not keys:
        return
    path = state.path / "secrets.json"
    write_json(path, read_json(path) | dict(keys))
    os.environ.update(keys)
    if key := keys.get("BENCHLAB_KEY"):
        settings.BENCHLAB_KEYS = env.fernet_keys(key)


@transaction.atomic
def _made_safe(manifest: Manifest) -> Restored:
    spares = Device.objects.filter(spare=True).update(spare=False)
    waiting = Layout.objects.filter(phase=LayoutPhase.WAITING).values("campaign")
    paused = Campaign.objects.filter(pk__in=waiting, paused_at=None)
    restored = Restored(manifest, spares, _stop(manifest), paused.update(paused_at=timezone.now()))
    for model in NAMED_BY_ID:
        _skip_ids(model._meta.db_table)
    if not manifest.machine or manifest.machine != backup.machine_id():
        _not_this_machine()
    counts = {"spares": restored.spares, "stopped": restored.stopped, "paused": restored.paused}
    details = {"made": manifest.made, "version": manifest.version, **counts}
    add_entry(
        "restore",
        actor="manage.py",
        via="command",
        subject=f"backup of {manifest.at}",
        details=details,
    )
    database.end_work()
    return restored


def _stop(manifest: Manifest) -> int:
    """Leave what was at work on a host to a person: its runs are interrupted, and nothing is taken down by itself."""
    at_work = Layout.objects.filter(phase__in=AT_WORK).select_related("host", "campaign")
    for layout in at_work:
        text = INTERRUPTED.format(at=manifest.at, name=layout.name, host=layout.host)
        verdict = Verdict(Outcome.INTERRUPTED, Reason.RESTORED, text)
        end_attempts.end_open_attempts(layout, verdict)
        if layout.phase != LayoutPhase.TEARING_DOWN:
            transitions.begin_teardown(layout, verdict.outcome, verdict.reason, verdict.text)
        trouble = f"{text} {LOOK.format(host=layout.host)}"
        transitions.move_layout(layout, LayoutPhase.STUCK, trouble, trouble=trouble)
    return len(at_work)


def _skip_ids(table: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_serial_sequence(%s, 'id')", [table])
        [sequence] = cursor.fetchone()
        cursor.execute("SELECT setval(%s, nextval(%s) + %s)", [sequence, sequence, GIVEN_SINCE])


def _not_this_machine() -> None:
    """Hosts that were "this machine" are another one: `up` makes a host of its own of the one it runs on now."""
    host_name = socket.gethostname()
    names = set(Host.objects.values_list("name", flat=True))
    for host in Host.objects.filter(is_local=True):
        host.is_local = False
        if host.name == host_name:
            host.name = next(
                name for n in range(1, 1000) if (name := f"{host_name} before {n}") not in names
            )
        host.save(update_fields=["is_local", "name"])


WITHOUT = "--without-ssh-keys"
CREDENTIALS = "hosts_credential"


def chosen(place: Path, state: State) -> Mapping[str, str]:
    """The keys of the backup at `place` that the environment does not set, to be taken over."""
    keys = read_json(place / KEYS)
    return {
        name: str(keys[name]) for name in backup.KEPT if name in keys and not _brought(name, state)
    }


def _brought(name: str, state: State) -> bool:
    """True if the caller's environment sets the key, not the state directory."""
    own = read_json(state.path / "secrets.json").get(name)
    return is_given(name) and os.environ.get(name) != own


def require(place: Path, manifest: Manifest, taken_over: Mapping[str, str]) -> None:
    """Raise Trouble, with the remedy, if stored secrets could not be opened."""
    own = taken_over.get("BENCHLAB_KEY")
    keys = env.fernet_keys(own) if own else list(settings.BENCHLAB_KEYS)
    newest = manifest.keys[:1]
    lost = set(newest) - set(map(fingerprint, keys))
    shut = _shut(place / DUMP, keys) if manifest.credentials else []
    if lost or shut:
        raise Trouble(
            _keys_message(place, manifest, keys, shut, kept_there=bool(read_json(place / KEYS)))
        )


def _keys_message(
    place: Path, manifest: Manifest, keys: Sequence[str], shut: Sequence[str], kept_there: bool
) -> str:
    fingerprint_words = f", whose fingerprint is {manifest.keys[0]}" if manifest.keys else ""
    own_fingerprints = ", ".join(map(fingerprint, keys))
    lines = [
        f"The backup was made under another BENCHLAB_KEY{fingerprint_words}; the one given here has {own_fingerprints}."
    ]
    if shut:
        lines.append(f"It does not open these SSH keys: {', '.join(shut)}.")
    if kept_there:
        lines.append(
            f"Leave BENCHLAB_KEY out of the environment, then the one in {place / KEYS} is used, or put that one "
            "behind yours: BENCHLAB_KEY=YOURS,OLD."
        )
    else:
        lines.append(
            f"There is no {KEYS} in {place}. Give BENCHLAB_KEY in the environment, as it was when the backup was made, "
            "or behind a new one: BENCHLAB_KEY=NEW,OLD."
        )
    lines.append(f"To go on without what it seals, add {WITHOUT}. Nothing was changed.")
    return " ".join(lines)


def _shut(dump: Path, keys: Sequence[str]) -> list[str]:
    """Names of the SSH keys in the dump that none of the keys can decrypt."""
    fernet = MultiFernet([Fernet(key) for key in keys])
    unreadable = []
    for name, sealed in _credentials(dump):
        try:
            fernet.decrypt(sealed)
        except InvalidToken:
            unreadable.append(name)
    return unreadable


def _credentials(dump: Path) -> Iterator[tuple[str, bytes]]:
    """Name and encrypted private key of each SSH key, from the COPY of their table, whose columns tabs separate.

    A server prints bytea as hex, or with bytea_output = escape as the letters of the Fernet token itself.
    """
    how = ("--data-only", f"--table={CREDENTIALS}", "--file=-", str(dump))
    lines = iter(backup.run("pg_restore", *how, connected=False).splitlines())
    head = next((line for line in lines if line.startswith("COPY ")), "")
    columns = head.partition("(")[2].partition(")")[0].split(", ")
    for line in lines:
        if line == "\\.":
            return
        row = dict(zip(columns, line.split("\t"), strict=True))
        sealed = row["private_key"]
        raw = sealed.encode() if "\\" not in sealed else bytes.fromhex(sealed.removeprefix("\\\\x"))
        yield row["name"], raw
