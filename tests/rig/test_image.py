"""The shipped image: how much it holds, that nothing BenchLab uses is missing, and what its commands do in it."""

from __future__ import annotations

import re
import shutil
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
# A version before this one whose image starts.
BEFORE = "11145c1c"
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


def taken(place: Path, commit: str) -> Path:
    """The tree of that commit."""
    archive = ("git", "archive", "--format=tar", f"--output={place}.tar", commit)
    subprocess.run(archive, cwd=ROOT, check=True)
    shutil.unpack_archive(f"{place}.tar", place, "tar", filter="data")
    return place


@pytest.mark.night
def test_an_upgrade_a_backup_and_a_restore(tmp_path: Path) -> None:
    """The image before makes the database, this one takes it over; its backup goes into another database."""
    with images(tmp_path) as podman:
        podman.build("benchlab-before", taken(tmp_path / "before", BEFORE))
        with sql(podman) as given:
            run = ("podman", "run", "--rm", *as_shipped(), *given)
            manage = (*run, "benchlab", "python", "manage.py")
            said = podman.run(*run, "benchlab-before", *SERVICE["migrate"]["command"])
            assert "with password" in said
            said = podman.run(*run, "benchlab", *SERVICE["migrate"]["command"])
            assert "with password" not in said
            podman.run(*manage, "reparse")
            assert "No damage found." in podman.run(*manage, "doctor")
            assert "Backup of" in podman.run(*manage, "backup", "/var/lib/benchlab/kept")
            podman.run(
                "podman",
                "exec",
                "sql",
                "createdb",
                "-h",
                "/run/postgresql",
                "-U",
                "benchlab",
                "other",
            )
            other = ("-e", "DATABASE_URL=postgresql://benchlab@/other?host=/run/postgresql")
            head = ("-e", "BENCHLAB_AUDIT_HEAD=/var/lib/benchlab/other-head.json")
            there = (*run, *other, *head, "benchlab", "python", "manage.py")
            said = podman.run(*there, "restore", "/var/lib/benchlab/kept")
            assert "Restored the backup" in said and "No damage found." in said
            assert "No damage found." in podman.run(*there, "doctor")
