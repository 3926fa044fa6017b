# SPDX-License-Identifier: Apache-2.0
"""The services' addresses: from the environment, else our own PostgreSQL and Valkey."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

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
