"""Dockerfile and docker-compose.yml, as far as they can be checked without a daemon: what they name is there, and
nothing starts without its secrets."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
SECRETS = ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "SECRET_KEY", "BENCHLAB_KEY")
# ${NAME}, ${NAME:-default}, ${NAME:?why}; $$ is a dollar.
VARIABLE = re.compile(r"(?<!\$)\$\{(?P<name>[A-Z_]+)(?::(?P<how>[-?])(?P<text>[^}]*))?\}")
HEALTH = yaml.safe_load(
    next(one for one in DOCKERFILE if " CMD [" in one and "HEALTHCHECK" in one).split(" CMD ")[1]
)[2]
OURS = [name for name, service in SERVICES.items() if service.get("image") == "benchlab"]


def words(instruction: str) -> list[list[str]]:
    """The Dockerfile's lines of that kind."""
    return [shlex.split(one)[1:] for one in DOCKERFILE if one.startswith(f"{instruction} ")]


def command(service: str) -> list[str]:
    """What it runs: its own, or the image's."""
    (image,) = (one for one in DOCKERFILE if one.startswith("CMD "))
    told = SERVICES[service].get("command") or yaml.safe_load(image.removeprefix("CMD "))
    return [str(word) for word in told]


def test_every_secret_is_demanded_wherever_it_is_used():
    found = list(VARIABLE.finditer((ROOT / "docker-compose.yml").read_text()))
    assert set(SECRETS) <= {one["name"] for one in found}
    for one in found:
        if one["name"] in SECRETS:
            assert one["how"] == "?" and one["text"], one[0]
        else:
            assert one["how"] == "-", f"{one[0]}: say what it is where nobody set it"
    assert not [one for one in DOCKERFILE if one.startswith("ENV ") and any(s in one for s in SECRETS)]  # fmt: skip


def test_all_that_a_service_is_given_is_read_by_somebody():
    code = "".join(path.read_text() for path in ROOT.glob("benchlab/**/*.py"))
    for service in OURS:
        for name in SERVICES[service]["environment"]:
            assert f'"{name}"' in code, f"{service}: {name}"


def test_services_volumes_and_files_that_are_named_are_there():
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", ())) <= set(SERVICES), name
        volumes = {volume.partition(":")[0] for volume in service.get("volumes", ())}
        assert volumes <= set(COMPOSE["volumes"]), name
    for *sources, _ in words("COPY"):
        if not sources[0].startswith("--from"):
            assert all((ROOT / source).exists() for source in sources), sources
    for name in OURS:
        program, *rest = command(name)
        assert program in ("uvicorn", "celery", "python"), name
        if program == "python":
            assert rest[0] == "manage.py"
            assert list(ROOT.glob(f"benchlab/*/management/commands/{rest[1]}.py")), rest
    compile(HEALTH, "HEALTHCHECK", "exec")


@pytest.mark.parametrize("service", OURS)
def test_nothing_starts_without_its_secrets(service, tmp_path):
    """Run for real, with all of its environment but one secret, and then without any."""
    program, *rest = command(service)
    argv = [sys.executable, *(rest if program == "python" else ["-m", program, *rest])]
    given = {
        "SECRET_KEY": "x" * 50,
        "DATABASE_URL": "postgresql:///x",
        "REDIS_URL": "redis://127.0.0.1:1",
    }
    for env, missing in (({}, "SECRET_KEY"), (given, "BENCHLAB_KEY")):
        said = subprocess.run(
            argv,
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],
                "BENCHLAB_NO_BOOTSTRAP": "1",
                "DJANGO_SETTINGS_MODULE": "benchlab.settings",
                "BENCHLAB_STATE": str(tmp_path),
                **env,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert said.returncode != 0 and f"{missing} is not set" in said.stderr, said.stderr[-500:]
