"""The product's own processes as `up` starts them, on a benchmark's database, in a directory of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

# Connections of others than who asks.
CONNECTIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


def environment(directory: Path) -> dict[str, str]:
    """They take their messages from where this process sends them to."""
    from django.conf import settings

    from tests import stack

    env = stack.environment(settings.REDIS_URL)
    return env | {"BENCHLAB_STATIC": str(directory / "static"), "BENCHLAB_DEBUG": "0"}


@contextmanager
def workers(directory: Path, env: Mapping[str, str]) -> Iterator[psutil.Process]:
    """Worker and beat; the worker's process. What they say is in worker.log and beat.log."""
    from benchlab.up import supervised
    from benchlab.up.state import State
    from tests import stack

    state = State(directory / "up")
    state.create()
    with (
        stack.process(argv(supervised.worker(env)), directory / "worker.log", env) as worker,
        stack.process(argv(supervised.beat(state, env)), directory / "beat.log", env),
    ):
        yield psutil.Process(worker.pid)


@contextmanager
def web(directory: Path, env: Mapping[str, str]) -> Iterator[tuple[str, psutil.Process]]:
    """The web server, after what `up` does before it starts one; its address and its process."""
    from benchlab.up import supervised
    from benchlab.up.ports import free_port
    from tests import stack

    log, port = directory / "prepare.log", free_port()
    with stack.process(supervised.prepare(), log, env) as prepared:
        assert prepared.wait(120) == 0, log.read_text()
    server = argv(supervised.web("127.0.0.1", port, env))
    with stack.process(server, directory / "web.log", env) as started:
        stack.wait_for(lambda: stack.listens(port, started), directory / "web.log", 30)
        yield f"http://127.0.0.1:{port}", psutil.Process(started.pid)


def argv(recipe: Any) -> list[str]:
    return [str(word) for word in recipe.argv]
