# SPDX-License-Identifier: Apache-2.0
"""The services' addresses: from the environment, else our own PostgreSQL and Valkey."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader

from benchlab.installation import INSTALLED, ROOT, command
from benchlab.up import postgres, valkey
from benchlab.up.ports import kept_port, noted_port
from benchlab.up.procs import end, identify, identity_from_json, spawn
from benchlab.up.state import State, changing, load_secrets, read_json
from benchlab.up.trouble import Trouble


def base_environment(state: State) -> dict[str, str]:
    """Our environment, with secrets of the state directory where it sets none."""
    env = {**os.environ, "BENCHLAB_STATE": str(state.path), "BENCHLAB_NO_BOOTSTRAP": "1"}
    # Only `up` notifies systemd, not its children.
    env.pop("NOTIFY_SOCKET", None)
    env["PYTHONUNBUFFERED"] = "1"
    if not INSTALLED:
        env["PYTHONPATH"] = str(ROOT)
    env.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")
    env.setdefault("BENCHLAB_AUDIT_HEAD", str(state.path / "audit-head.json"))
    secrets = load_secrets(state)
    for name in ("SECRET_KEY", "BENCHLAB_KEY"):
        if not is_given(name):
            env[name] = secrets[name]
    return env


def is_given(name: str) -> bool:
    """True if the environment sets it, as NAME or NAME_FILE."""
    return bool(os.environ.get(name) or os.environ.get(f"{name}_FILE"))


def redis_config(state: State, port: int) -> bytes:
    """The configuration of our own Valkey at that port."""
    directory = state.path / "valkey"
    directory.mkdir(mode=0o700, exist_ok=True)
    return valkey.config(directory, port, load_secrets(state)["REDIS_PASSWORD"]).encode()


def redis_url(state: State, port: int) -> str:
    """The URL of our own Valkey."""
    return valkey.url(port, load_secrets(state)["REDIS_PASSWORD"])


def running(state: State) -> dict[str, object]:
    """The facts that the running `up` of this state directory has written down; {} if none runs."""
    record = read_json(state.running)
    identity = identity_from_json(record)
    return record if identity and identity.alive else {}


@contextmanager
def for_command(state: State) -> Iterator[Mapping[str, str]]:
    """Environment for one Django command; starts our PostgreSQL for it when `up` is not running.

    Waits while `up` starts, and while another command runs our PostgreSQL.
    """
    state.create()
    with ExitStack() as held:
        held.enter_context(changing(state))
        env = base_environment(state)
        if not is_given("REDIS_URL"):
            # If `up` runs, its Valkey has the port. A message sent to another port would be lost.
            port = noted_port(state, "valkey") if running(state) else None
            env["REDIS_URL"] = redis_url(state, port or kept_port(state, "valkey"))
        if is_given("DATABASE_URL"):
            held.close()
            yield env
            return
        cluster = postgres.plan(state)
        env["DATABASE_URL"] = cluster.url
        if running(state):
            held.close()
            yield env
            return
        with served(cluster):
            yield env


def use_stores(word: str, state: State) -> None:
    """Put the addresses of both stores into the environment, unless it has them already.

    Raises Trouble if `up` does not run: stores that this program starts would end with it.
    """
    # a container, or a child of `up`: all is given
    if os.environ.get("BENCHLAB_NO_BOOTSTRAP"):
        return
    if not running(state):
        require_given(word, state)
    with for_command(state) as env:
        os.environ.update(env)


def require_given(word: str, state: State) -> None:
    missing = [name for name in ("DATABASE_URL", "REDIS_URL") if not is_given(name)]
    if missing:
        raise Trouble(
            f"`{command(word)}` needs PostgreSQL and Redis: set {' and '.join(missing)}. Or start"
            f" `{command('up')}`, which runs all there is; nothing runs on {state.path} now."
        )


@contextmanager
def served(cluster: postgres.Postgres, throw_away: bool = False) -> Iterator[None]:
    """Run the cluster inside the block; create it if necessary."""
    if notice := postgres.make_cluster(cluster):
        sys.stderr.write(f"{notice}\n")
    with cluster.log.open("ab") as log:
        process = spawn(
            postgres.server_argv(cluster, throw_away),
            postgres.BASE_ENV,
            log,
            owner=cluster.owner,
            cwd="/",
            death=postgres.STOP_SIGNAL,
        )
    try:
        wait_for(lambda: postgres.ready(cluster, process.pid), process, "PostgreSQL", cluster)
        yield
    finally:
        if identity := identify("postgres", process.pid):
            end([identity], postgres.STOP_SIGNAL)
        process.wait()


def wait_for(
    ready: Callable[[], bool],
    process: subprocess.Popen[bytes],
    name: str,
    cluster: postgres.Postgres,
    patience_s: float = 60.0,
) -> None:
    deadline = time.monotonic() + patience_s
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            log_tail = cluster.log.read_text(errors="replace")[-4000:]
            raise postgres.failure(cluster, "the server did not start", log_tail)
        time.sleep(0.02)


# app, name of a migration
Step = tuple[str, str]

TOO_OLD = (
    "{what} is from before {day} ({apps}): its tables were made by steps that have become one since. "
    "Nothing was changed. {way}"
)
FIRST_SQUASH, FIRST_DAY = "0001_squashed", "2026-11-22"
LAST_DAY = "2026-11-27"
# Names of commits may change; a file that went with the steps finds the one that removed them. What lacks steps of an
# earlier squash, too, is told there how to go on: each squash knows the way to the one before it.
LAST_STEP = "benchlab/runs/migrations/0003_histograms.py"
CHECKOUT = f"git checkout $(git log --all -1 --diff-filter=D --format=%h -- {LAST_STEP})^"
FINISH = {
    "This database": f"Run `{CHECKOUT}` and `python3 manage.py up` once there, then from this commit; "
    "or begin anew with another BENCHLAB_STATE.",
    "The backup": f"Run `{CHECKOUT}`, restore it there and make a backup of that.",
}
# Not all of the steps before the first squash are in the history: one of `hosts` was never committed.
BEGIN_ANEW = {
    "This database": "No commit has all of those steps, so begin anew with another BENCHLAB_STATE; "
    "the commit that made this one still reads it.",
    "The backup": "No commit has all of those steps; the commit that made it still restores it.",
}


def refusal(what: str, applied: Collection[Step]) -> str:
    """The message for a database or backup with only some steps of a squash, on which Django would fail; else "".

    `what` is a key of FINISH; `applied` holds the steps that it has.
    """
    apps = half_applied(applied)
    if not apps:
        return ""
    values = {"what": what, "apps": ", ".join(apps)}
    if any(_some_but_not_all(_first_steps(migration), applied) for migration in squashed()):
        return TOO_OLD.format(**values, day=FIRST_DAY, way=BEGIN_ANEW[what])
    return TOO_OLD.format(**values, day=LAST_DAY, way=FINISH[what])


def half_applied(applied: Container[Step]) -> list[str]:
    """The apps that have some of their squashed steps, but not all."""
    return [
        migration.app_label
        for migration in squashed()
        if (migration.app_label, migration.name) not in applied
        and _some_but_not_all(migration.replaces, applied)
    ]


def squashed() -> list[Migration]:
    """The migrations that stand for others, by app."""
    migrations = sorted((MigrationLoader(None).disk_migrations or {}).items())
    return [migration for _, migration in migrations if migration.replaces]


def _first_steps(migration: Migration) -> Sequence[Step]:
    """The steps that an app's first squash replaced; none for an app without one."""
    names = [name for _, name in migration.replaces]
    if migration.name == FIRST_SQUASH:
        return migration.replaces
    return migration.replaces[: names.index(FIRST_SQUASH)] if FIRST_SQUASH in names else []


def _some_but_not_all(steps: Sequence[Step], applied: Container[Step]) -> bool:
    has = [step in applied for step in steps]
    return any(has) and not all(has)


TABLE = "restore_unfinished"
SAYS = (
    "A backup was being restored into this database, and that did not finish: it says of disks that they are spare, as "
    "they were when the backup was made. Nothing is started on it. Move it away, and restore the backup again."
)


def begin() -> None:
    """Mark the database: from here on nothing starts on it."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} ()")


def end_work() -> None:
    """Remove the mark, within the transaction that makes it safe to start."""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {TABLE}")


def is_unfinished() -> bool:
    return TABLE in connection.introspection.table_names()
