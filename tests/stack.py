"""BenchLab as it runs for people, on a test's own database: web server, worker and beat as processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.db import connection

Process = subprocess.Popen[bytes]


def redis_url(number: int) -> str:
    """Another database of the same Redis, so that tests at the same time do not take each other's messages."""
    return f"{settings.REDIS_URL.rsplit('/', 1)[0]}/{number}"


def environment(redis: str) -> dict[str, str]:
    """Environment in which a process sees this test's database."""
    wanted = settings.DATABASES["default"]
    name = connection.settings_dict["NAME"]
    url = f"postgresql://{wanted['USER']}:{wanted['PASSWORD']}@/{name}?host={wanted['HOST']}"
    if wanted["PORT"]:
        url += f"&port={wanted['PORT']}"
    return {**os.environ, "DATABASE_URL": url, "REDIS_URL": redis}


@contextmanager
def process(argv: Sequence[str], log: Path, env: Mapping[str, str]) -> Iterator[Process]:
    """A process group that is killed with the block; what it says is appended to `log`."""
    with log.open("ab") as file:
        started = subprocess.Popen(argv, env=env, stdout=file, stderr=file, start_new_session=True)
    try:
        yield started
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


@contextmanager
def worker(directory: Path, redis: str) -> Iterator[Process]:
    """Worker and beat in one process group; their log is worker.log."""
    argv = [sys.executable, "-m", "celery", "-A", "benchlab.celery", "worker", "-B", "--pool", "threads",
            "--concurrency", "4", "--without-gossip", "--without-mingle",
            "-s", str(directory / "beat")]  # fmt: skip
    with process(argv, directory / "worker.log", environment(redis)) as started:
        yield started


@contextmanager
def web(directory: Path, redis: str, **more: str) -> Iterator[str]:
    """The web server, as in production (no DEBUG); yields its address. Its log is web.log. `more`: settings."""
    with web_at(_free_port(), directory, redis, more) as address:
        yield address


@contextmanager
def web_at(port: int, directory: Path, redis: str, more: Mapping[str, str]) -> Iterator[str]:
    argv = [sys.executable, "-m", "benchlab.web.server", "--port", str(port)]
    env = {**environment(redis), "BENCHLAB_DEBUG": "0", **more}
    with process(argv, directory / "web.log", env) as started:
        wait_for(lambda: listens(port, started), directory / "web.log", 30)
        yield f"http://127.0.0.1:{port}"


def wait_for(true: Callable[[], bool], log: Path, seconds: float) -> None:
    """Until it is true; the failure shows the end of the log."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, log.read_text(errors="replace")[-4000:]
        time.sleep(0.1)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def listens(port: int, started: Process) -> bool:
    assert started.poll() is None, f"the web server ended with {started.returncode}"
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
