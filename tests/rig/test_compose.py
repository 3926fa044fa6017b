"""The stack that docker-compose.yml ships: its image is built, and it starts, answers, drains and keeps its data."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from benchlab.up.ports import free_port
from tests.rig.containers import engine

SECRETS = {
    "POSTGRES_PASSWORD": "p/w@r:d %41",
    "REDIS_PASSWORD": "r3dis",
    "SECRET_KEY": "s" * 50,
    "BENCHLAB_KEY": "HLE5Fz3zfV55S1aEDHBv9p7cVo3cvBAsTPUF0fUG-sE=",
}


def until(met: Callable[[], bool], seconds: float, said: Callable[[], str]) -> None:
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, said()
        time.sleep(0.3)


def asked(port: int, path: str, host: str = "bench.example.test") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


LACKING = [
    program for program in ("buildah", "podman", "runc", "iptables") if not shutil.which(program)
]


@pytest.mark.night
@pytest.mark.skipif(
    bool(LACKING),
    reason=f"{', '.join(LACKING)} missing: apt-get install buildah podman runc netavark aardvark-dns iptables",
)
def test_the_shipped_stack_starts_at_the_first_try(tmp_path: Path) -> None:
    port = free_port()
    env = {**SECRETS, "BENCHLAB_PORT": str(port), "ALLOWED_HOSTS": "bench.example.test"}
    with engine(tmp_path) as podman:

        def logs() -> str:
            return podman.compose(env, "logs", "--tail", "20")

        try:
            podman.up(env)
            assert re.search(
                r"Log in as  admin  with password  \S+", podman.compose(env, "logs", "migrate")
            )
            until(lambda: asked(port, "/readyz", "10.0.0.7")[0] == 200, 60, logs)
            status, page = asked(port, "/login/")
            assert status == 200 and (found := re.search(r'href="(/static/[^"]+\.css)"', page))
            assert asked(port, found[1])[0] == 200
            for service in ("web", "worker", "beat"):
                name = f"benchlab-test-{service}-1"
                until(partial(podman.healthy, name), 90, logs)
            podman.compose(env, "stop", "postgres")
            began = time.monotonic()
            status, told = asked(port, "/readyz")
            assert status == 503 and json.loads(told)["database"].startswith("no connection")
            assert asked(port, "/healthz")[0] == 200
            assert time.monotonic() - began < 5  # the pool's patience is ten seconds, of each
            podman.compose(env, "start", "postgres")
            until(lambda: asked(port, "/readyz")[0] == 200, 60, logs)
        finally:
            podman.compose(env, "down", "--volumes")
