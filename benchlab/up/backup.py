# SPDX-License-Identifier: Apache-2.0
"""A backup: one directory with the whole database as of one moment, the keys that open it, and what it must hold.

The database is read in one snapshot, by pg_dump and by our own counts, while everything goes on. The directory has its
name only once it is whole: a backup that did not finish cannot be taken for one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from psycopg import sql

import benchlab
from agents import options
from agents.contracts import OptionsError
from benchlab.hosts.models import Credential
from benchlab.up import postgres, store_programs
from benchlab.up.state import State, read_json, write_json
from benchlab.up.trouble import Trouble, remedy

FORMAT = 1
DUMP, MANIFEST, KEYS = "database.dump", "manifest.json", "keys.json"
KEPT = ("SECRET_KEY", "BENCHLAB_KEY")
# The oldest server that the programs of a later version read here and put back into.
OLDEST = 15
MACHINE_ID = Path("/etc/machine-id")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A backup's description of itself: when and by which version it was made, and what a restore must bring back."""

    format: int
    # ISO 8601, UTC
    made: str
    version: str
    # /etc/machine-id; "" where there is none
    machine: str
    # bytes of the dump
    size: int
    sha256: str
    # SSH keys that only the keys open
    credentials: int
    # by table
    rows: dict[str, int]
    # app and name of each that was applied
    migrations: list[tuple[str, str]]
    # fingerprints of BENCHLAB_KEY's, newest first
    keys: list[str] = field(default_factory=list)

    @property
    def at(self) -> str:
        """Time at which it was made, as people read it."""
        return f"{datetime.fromisoformat(self.made):%Y-%m-%d %H:%M} UTC"


def write(target: Path, state: State, with_keys: bool = True) -> Manifest:
    """Make the backup at `target`, which must not exist. Raises Trouble; then nothing of it is left."""
    if target.exists() or target.is_symlink():
        raise Trouble(f"{target} is there already. A backup is never written over: name another.")
    require_programs()
    try:
        with _unfinished(target) as place:
            manifest = _dump(place)
            if with_keys and (keys := own_keys(state)):
                write_json(place / KEYS, keys)
            write_json(place / MANIFEST, asdict(manifest))
            for path in (*place.iterdir(), place):
                _sync(path)
            place.rename(target)
            _sync(target.parent)
    except OSError as error:
        todo = remedy(error, "Name a directory that can be written to.")
        raise Trouble(f"Cannot write the backup {target}: {error.strerror}. {todo}") from None
    return manifest


@contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """A directory of our own beside the target, on the same disk: renamed in the block, or gone after it."""
    place = Path(tempfile.mkdtemp(prefix=f"{target.name}.unfinished-", dir=target.parent))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _dump(place: Path) -> Manifest:
    at = timezone.now()
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        [snapshot] = cursor.execute("SELECT pg_export_snapshot()").fetchone()
        how = ["--format=custom", "--no-owner", "--no-acl", f"--snapshot={snapshot}"]
        run("pg_dump", *how, f"--file={place / DUMP}")
        rows = counted()
        credentials = Credential.objects.count()
        applied = sorted(MigrationRecorder(connection).applied_migrations())
    # a copy of the directory may be open to others
    (place / DUMP).chmod(0o600)
    _require_tables(place / DUMP, rows)
    return Manifest(
        format=FORMAT,
        made=at.isoformat(timespec="seconds"),
        version=benchlab.__version__,
        machine=machine_id(),
        size=(place / DUMP).stat().st_size,
        sha256=digest(place / DUMP),
        credentials=credentials,
        rows=rows,
        migrations=applied,
        keys=[fingerprint(key) for key in settings.BENCHLAB_KEYS],
    )


def counted() -> dict[str, int]:
    """Rows of every table of the database."""
    counts = {}
    with connection.cursor() as cursor:
        for table in sorted(connection.introspection.table_names(cursor)):
            cursor.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
            [counts[table]] = cursor.fetchone()
    return counts


def _require_tables(dump: Path, rows: Mapping[str, int]) -> None:
    """Check that the dump holds every table: the exit code alone does not show it."""
    listed = run("pg_restore", "--list", str(dump), connected=False).splitlines()
    tables = {line.split()[6] for line in listed if " TABLE DATA " in line}
    if missing := sorted(rows.keys() - tables):
        raise Trouble(f"pg_dump left out {', '.join(missing)}. The backup was not made.")


def require_programs() -> None:
    """Raise Trouble where pg_dump and pg_restore are not of a version that this server can be read and written with,
    or do not reach it."""
    server = connection.get_database_version()[0]
    ours = int(postgres.major_version(store_programs.postgres_directory("pg_dump"), "pg_dump"))
    if server > ours or (server < ours and server < OLDEST):
        raise Trouble(
            f"The server is PostgreSQL {server}, the programs to back it up are of {ours}. Name its own in "
            f"BENCHLAB_PG_BIN (/usr/lib/postgresql/{server}/bin on Debian). Nothing was done."
        )
    try:
        run("pg_dump", "--schema-only", "--exclude-schema=*")
    except Trouble as trouble:
        raise Trouble(
            "PostgreSQL's programs do not reach the database, which BenchLab does. Those that come with BenchLab have "
            f"no TLS: where the server demands it, name others in BENCHLAB_PG_BIN. Nothing was done.\n{trouble}"
        ) from None


def require_readable(dump: Path) -> None:
    """Raise Trouble where our pg_restore is older than the pg_dump that wrote it: it knows no later format."""
    try:
        run("pg_restore", "--list", str(dump), connected=False)
    except Trouble as trouble:
        server = connection.get_database_version()[0]
        raise Trouble(
            f"{dump} cannot be read by the programs of PostgreSQL {server}, the server's own: a backup goes into a "
            f"server of the version that it was made of, or a later one. Nothing was changed.\n{trouble}"
        ) from None


def run(name: str, *words: str, connected: bool = True) -> str:
    """Output of one of PostgreSQL's programs. Raises Trouble with the end of its error output."""
    argv = [program(name), *(["--no-password"] if connected else []), *words]
    try:
        process = subprocess.run(
            argv, env=environment(connected), capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise Trouble(f"{argv[0]} cannot be run: {error.strerror}. Set BENCHLAB_PG_BIN.") from None
    if process.returncode:
        raise failed(name, process.returncode, process.stderr)
    return process.stdout


def program(name: str) -> str:
    return str(store_programs.postgres_directory(name) / name)


def failed(name: str, code: int, output: str) -> Trouble:
    tail = "\n".join(f"  {line}" for line in output.strip().splitlines()[-6:])
    return Trouble(f"{name} failed (exit {code}). Its last words:\n{tail}")


def environment(connected: bool) -> Mapping[str, str]:
    """Django's connection as libpq variables, so that the password is on no command line."""
    env = {**postgres.BASE_ENV}
    if not connected:
        return env
    connection.ensure_connection()
    info = connection.connection.info
    names = {"host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE", "user": "PGUSER"}
    names |= {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT"}
    names |= {"sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY", "channel_binding": "PGCHANNELBINDING"}
    parameters = {**info.get_parameters(), "host": info.host, "port": str(info.port)}
    env |= {names[name]: value for name, value in parameters.items() if name in names and value}
    return env | ({"PGPASSWORD": info.password} if info.password else {})


def own_keys(state: State) -> dict[str, str]:
    """The keys that the state directory holds; keys from the environment are stored elsewhere."""
    secrets = read_json(state.path / "secrets.json")
    return {
        name: secrets[name]
        for name in KEPT
        if name in secrets and os.environ.get(name) == secrets[name]
    }


def read(place: Path) -> Manifest:
    """Read the manifest of a backup, but not its dump. Raises Trouble if this is no backup of BenchLab."""
    try:
        manifest: Manifest = options.build_options(
            Manifest, json.loads((place / MANIFEST).read_text())
        )
        datetime.fromisoformat(manifest.made)
    except (OSError, ValueError, TypeError, OptionsError) as error:
        raise Trouble(
            f"{place} is not a backup: its {MANIFEST} cannot be read ({error})."
        ) from None
    if manifest.format != FORMAT:
        raise Trouble(
            f"{place} has format {manifest.format}, this BenchLab reads {FORMAT}. "
            f"Take the one that made it: {manifest.version}."
        )
    return manifest


def require_whole(place: Path, manifest: Manifest) -> None:
    """Raise Trouble if the dump differs by a single bit from the one that was written."""
    dump = place / DUMP
    try:
        size = dump.stat().st_size
        same = size == manifest.size and digest(dump) == manifest.sha256
    except OSError as error:
        raise Trouble(f"{dump} cannot be read: {error.strerror}.") from None
    if not same:
        raise Trouble(
            f"{dump} is damaged: {size} bytes, and not those that were written ({manifest.size})."
        )


def fingerprint(key: str) -> str:
    """A fingerprint of a Fernet key that does not reveal the key."""
    return hashlib.sha256(b"benchlab.backup" + base64.urlsafe_b64decode(key)).hexdigest()[:12]


def digest(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def machine_id() -> str:
    try:
        return MACHINE_ID.read_text().strip()
    except OSError:
        return ""


def _sync(path: Path) -> None:
    """Flush the path to the disk itself, so that a rename after this survives a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
