"""The shipped image: how much it holds, that nothing BenchLab uses is missing, and that `migrate` runs in it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rig.containers import IMAGES, ROOT, Engine, images, wait_until
from tests.rig.test_compose import SECRETS

# 450 MB in all: Docker Hub's python:3.13-slim has 120 to 150 of them. The stand-in is larger, so it is not counted.
OUR_LAYERS = 300_000_000
SERVICE: Mapping[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
NEEDED = ROOT / "tests" / "rig" / "whole_image.py"


def as_shipped() -> Iterator[str]:
    """Options of `podman run` for what docker-compose.yml says of `migrate`."""
    told = SERVICE["migrate"]
    assert told["read_only"] and told["cap_drop"] == ["ALL"]
    yield "--read-only"
    for place in told["tmpfs"]:
        yield from ("--tmpfs", place)
    yield from ("--cap-drop", "ALL")
    for option in told["security_opt"]:
        yield from ("--security-opt", option.replace(":true", ""))
    for volume in told["volumes"]:
        yield from ("--volume", volume)


@contextmanager
def sql(podman: Engine) -> Iterator[tuple[str, ...]]:
    """PostgreSQL in a container; the options of one that uses it, by a socket, for neither has a network."""
    sockets = ("--network", "none", "--volume", "sockets:/run/postgresql")
    own = [
        word for name in ("USER", "DB", "PASSWORD") for word in ("-e", f"POSTGRES_{name}=benchlab")
    ]
    podman.run("podman", "run", "--detach", "--name", "sql", *sockets, *own, IMAGES["postgres"])
    # By TCP: the server that only makes the database does not listen there.
    ready = ("podman", "exec", "sql", "pg_isready", "-h", "127.0.0.1", "-U", "benchlab")
    wait_until(lambda: succeeds(podman, *ready), 60, lambda: podman.run("podman", "logs", "sql"))
    given = SECRETS | {
        "DATABASE_URL": "postgresql://benchlab@/benchlab?host=/run/postgresql",
        "REDIS_URL": "redis://127.0.0.1:6379/0",
    }
    yield (*sockets, *(word for name, value in given.items() for word in ("-e", f"{name}={value}")))


def succeeds(podman: Engine, *argv: str) -> bool:
    return not subprocess.run(argv, env=podman.env, capture_output=True, check=False).returncode


def size(podman: Engine, image: str) -> int:
    return int(podman.run("podman", "image", "inspect", "--format", "{{.Size}}", image))


@pytest.mark.covering
def test_the_image_is_small_and_prepares_its_database(tmp_path: Path) -> None:
    """Once it could not: it collected static files again, as a user who may not write where root had put them."""
    with images(tmp_path) as podman:
        ours = size(podman, "benchlab") - size(podman, IMAGES["python"])
        assert ours <= OUR_LAYERS, f"{ours / 1e6:.0f} MB on top of Python's image"
        with sql(podman) as given:
            run = ("podman", "run", "--rm", *as_shipped(), *given, "benchlab")
            said = podman.run(*run, *SERVICE["migrate"]["command"])
            assert re.search(r"Log in as  admin  with password  \S+", said), said
            assert podman.run(*run, "id", "-u").strip() == "10001"


@pytest.mark.night
def test_nothing_that_benchlab_uses_is_missing(tmp_path: Path) -> None:
    with images(tmp_path) as podman, sql(podman) as given:
        run = ("podman", "run", "--rm", *as_shipped(), *given, "benchlab")
        shell = ("python", "manage.py", "shell", "--no-imports", "-c", NEEDED.read_text())
        assert "All is there." in podman.run(*run, *shell)
