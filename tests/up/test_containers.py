"""Dockerfile and docker-compose.yml, as far as they can be checked without a daemon: what they name is there, and
nothing starts without its secrets."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from benchlab.up.command import SERVICES as WORDS
from tests.up.compose import interpolate

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
SECRETS = ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "SECRET_KEY", "BENCHLAB_KEY")
# What may be left out, and its file: NAME, NAME_FILE.
OPTIONAL = ("BENCHLAB_MAIL_URL", "BENCHLAB_METRICS_TOKEN", "BENCHLAB_OIDC_CLIENT_SECRET")
GIVEN = {
    "POSTGRES_PASSWORD": "p/w@r:d %41",
    "REDIS_PASSWORD": "r3dis",
    "SECRET_KEY": "s" * 50,
    "BENCHLAB_KEY": "HLE5Fz3zfV55S1aEDHBv9p7cVo3cvBAsTPUF0fUG-sE=",
}
# Ours alone: for development, and of `up` and its tests.
NOT_FOR_CONTAINERS = {"BENCHLAB_DEBUG", "BENCHLAB_STATIC"}  # the image has its own place
SHOW = """
import json
from django.conf import settings as s
from redis import ConnectionPool
redis = ConnectionPool.from_url(s.REDIS_URL).connection_kwargs
print(json.dumps({
    "POSTGRES_PASSWORD": s.DATABASES["default"]["PASSWORD"], "REDIS_PASSWORD": redis["password"],
    "SECRET_KEY": s.SECRET_KEY, "BENCHLAB_KEY": s.BENCHLAB_KEYS[0],
    "where": [s.DATABASES["default"]["HOST"], s.DATABASES["default"]["USER"], redis["host"], redis["port"]],
    "proxies": s.ALLAUTH_TRUSTED_PROXY_COUNT, "forbidden": len(s.BENCHLAB_FORBID_NETS),
    "lost": s.BENCHLAB_LOST_AFTER_S, "rates": s.BENCHLAB_API_RATES}))
"""
HEALTH = shlex.split(SERVICES["web"]["healthcheck"]["test"][1])[2]
OURS = [name for name, service in SERVICES.items() if service.get("image") == "benchlab"]


def words(instruction: str) -> list[list[str]]:
    """The Dockerfile's lines of that kind."""
    return [shlex.split(one)[1:] for one in DOCKERFILE if one.startswith(f"{instruction} ")]


def command(service: str) -> list[str]:
    """Command that it runs: its own, or the image's."""
    (image,) = (one for one in DOCKERFILE if one.startswith("CMD "))
    told = SERVICES[service].get("command") or yaml.safe_load(image.removeprefix("CMD "))
    return [str(word) for word in told]


def composed(env: dict[str, str]) -> dict[str, Any]:
    """The file as Compose reads it."""
    return cast(dict[str, Any], interpolate(COMPOSE, env))


def as_files(place: Path) -> dict[str, str]:
    """The secrets as NAME_FILE."""
    for name, value in GIVEN.items():
        (place / name).write_text(f"{value}\n")
    return {f"{name}_FILE": str(place / name) for name in GIVEN}


def inside(service: str, env: dict[str, str]) -> dict[str, str]:
    """The environment in a container, with the mounted secrets where they are out here."""
    told = composed(env)
    mounted = {
        f"/run/secrets/{name}": told["secrets"][name]["file"]
        for name in told["services"][service]["secrets"]
    }
    given = {name: str(value) for name, value in told["services"][service]["environment"].items()}
    for name, value in given.items():
        assert not value.startswith("/run/secrets/") or value in mounted, (
            f"{service}: {name} is not mounted"
        )
    return {name: mounted.get(value, value) for name, value in given.items()}


def settings_of(env: dict[str, str]) -> dict[str, Any]:
    """Our settings, loaded for real in such an environment."""
    given = {**env, "PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "benchlab.settings"}
    argv = [sys.executable, "-c", SHOW]
    done = subprocess.run(argv, cwd=ROOT, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return cast(dict[str, Any], json.loads(done.stdout))


def test_no_secret_has_a_default():
    text = (ROOT / "docker-compose.yml").read_text()
    values = re.findall(r"\$\{(\w+):-([^${}]+)\}", text)
    assert not [name for name, value in values if name in (*SECRETS, *OPTIONAL)]
    assert not [one for one in DOCKERFILE if one.startswith("ENV ") and any(s in one for s in SECRETS)]  # fmt: skip


@pytest.mark.parametrize("how", ["variables", "files", "both ways"])
@pytest.mark.parametrize("service", OURS)
def test_secrets_arrive_from_variables_and_files(service, how, tmp_path):
    files = as_files(tmp_path)
    if how == "both ways":
        files = {name: files[name] for name in ("POSTGRES_PASSWORD_FILE", "SECRET_KEY_FILE")}
    variables = {
        name: value
        for name, value in GIVEN.items()
        if how == "variables" or f"{name}_FILE" not in files
    }
    found = settings_of(inside(service, variables if how == "variables" else variables | files))
    assert {name: found[name] for name in GIVEN} == GIVEN
    assert found["where"] == ["postgres", "benchlab", "redis", 6379]
    assert (found["proxies"], found["lost"], found["rates"]["user"]) == (1, 900, 3000)
    assert found["forbidden"]


def test_settings_reach_the_containers():
    told = {"BENCHLAB_PROXIES": "2", "BENCHLAB_FORBID_NETS": "none", "BENCHLAB_LOST_AFTER_S": "60",
            "BENCHLAB_API_PER_TOKEN": "1", "BENCHLAB_API_PER_USER": "2", "BENCHLAB_API_EXPORTS": "3",
            "BENCHLAB_DIAGNOSES": "4"}  # fmt: skip
    found = settings_of(inside("worker", GIVEN | told))
    assert (found["proxies"], found["forbidden"], found["lost"]) == (2, 0, 60)
    assert found["rates"] == {"token": 1, "user": 2, "export": 3, "diagnosis": 4}


def test_every_setting_of_the_environment_is_passed_on():
    code = "".join(
        (ROOT / "benchlab" / f"{name}.py").read_text() for name in ("settings", "env", "web/server")
    )
    names = set(
        re.findall(r'\b(?:flag|text|required|number|words|networks|program)\(\s*"([A-Z_]+)"', code)
    )
    assert len(names) > 20
    for service in OURS:
        missing = names - SERVICES[service]["environment"].keys() - NOT_FOR_CONTAINERS
        own = {name for name in missing if name.startswith("BENCHLAB_DYNAMO_")}
        assert missing == (own if service != "dynamo" else set()), service


def test_every_service_is_limited_and_one_has_the_port():
    """So that there may be any number of the others; dynamo, which is off, has a port of its own protocol."""
    for name, service in SERVICES.items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"] and service["pids_limit"] and "cpus" in service, name
        assert all("size=" in mount for mount in service["tmpfs"]), name
        assert service["logging"]["options"]["max-size"], name
        assert "container_name" not in service, name
        assert bool(service.get("cap_add")) == (name in ("postgres", "redis")), name
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"proxy", "dynamo"}


def test_a_certificate_turns_https_on():
    told = {"BENCHLAB_TLS_CERTIFICATE_FILE": "lab.pem", "BENCHLAB_TLS_KEY_FILE": "lab.key"}
    for given, https, ssl in (({}, "", ""), (told, "1", "ssl")):
        services = composed(GIVEN | given)["services"]
        assert services["web"]["environment"]["BENCHLAB_HTTPS"] == https
        assert services["proxy"]["environment"]["PROXY_SSL"] == ssl


@pytest.mark.parametrize("how", ["variables", "files"])
def test_stores_get_their_passwords(how, tmp_path):
    given = GIVEN if how == "variables" else as_files(tmp_path)
    sql = inside("postgres", given)
    # The image takes either, never both.
    assert bool(sql["POSTGRES_PASSWORD"]) != bool(sql["POSTGRES_PASSWORD_FILE"])
    program = tmp_path / "docker-entrypoint.sh"
    program.write_text('#!/bin/sh\necho "$@"\nexec cat\n')
    program.chmod(0o755)
    argv = composed(given)["services"]["redis"]["command"]
    env = inside("redis", given) | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run(
        argv, env=env, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert said[0].startswith("valkey-server - ")
    assert said[1:] == [f"requirepass {GIVEN['REDIS_PASSWORD']}"]
    assert GIVEN["REDIS_PASSWORD"] not in said[0]


def test_no_store_starts_without_a_password():
    """PostgreSQL's image refuses by itself."""
    argv = composed({})["services"]["redis"]["command"]
    env = inside("redis", {}) | {"PATH": os.environ["PATH"]}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode and "REDIS_PASSWORD or REDIS_PASSWORD_FILE must be set" in done.stderr


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("a $$B ${A} $A", "a $B 1 1"),
        ("${A:-x} ${E:-x} ${E-x} ${N-x}", "1 x  x"),
        ("${A:+x} ${E:+x} ${E+x}", "x  x"),
        ("${N:-${E:-${A}}}.", "1."),
        ('sh "$${A:-$$B}"', 'sh "${A:-$B}"'),
    ],
)
def test_rules_of_compose(text, becomes):
    assert interpolate(text, {"A": "1", "E": ""}) == becomes


def test_all_that_a_service_is_given_is_read_by_somebody():
    code = "".join(path.read_text() for path in ROOT.glob("benchlab/**/*.py"))
    for service in OURS:
        for name in SERVICES[service]["environment"]:
            assert f'"{name.removesuffix("_FILE")}"' in code, f"{service}: {name}"


def test_what_the_image_is_made_of_is_sent_to_the_builder():
    """All is left out but what .dockerignore names: docs/ once was not, and no image could be built."""
    first, *rest = (ROOT / ".dockerignore").read_text().split()
    assert first == "*"
    sent = {one.removeprefix("!") for one in rest if one.startswith("!")}
    copied = {
        source for copy in words("COPY") if not copy[0].startswith("--from") for source in copy[:-1]
    }
    assert copied == sent


def test_services_volumes_and_files_that_are_named_are_there():
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", ())) <= set(SERVICES), name
        volumes = {volume.partition(":")[0] for volume in service.get("volumes", ())}
        assert volumes <= set(COMPOSE["volumes"]), name
        assert {config["source"] for config in service.get("configs", ())} <= set(
            COMPOSE["configs"]
        )
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"]), name
    assert all((ROOT / config["file"]).exists() for config in COMPOSE["configs"].values())
    for *sources, _ in words("COPY"):
        if not sources[0].startswith("--from"):
            assert all((ROOT / source).exists() for source in sources), sources
    for name in OURS:
        program, *rest = command(name)
        assert program in ("celery", "python"), name
        if rest[0] == "-m":
            assert find_spec(rest[1]), rest
        elif program == "python":
            assert rest[0] == "manage.py"
            ours = list(ROOT.glob(f"benchlab/*/management/commands/{rest[1]}.py"))
            assert ours or rest[1] in WORDS, rest
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
