"""The one file that goes to the host, and the oldest Python that may run it."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agents.dynamo import bundle
from tests.agents.dynamo_beside.beside import (
    config,
    console,
    figures,
)


def test_the_bundle_is_python_3_6_and_stands_alone() -> None:
    for name, text in bundle.sources().items():
        tree = ast.parse(text, name, feature_version=(3, 6))
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.module != "__future__", name
                names = [node.module or ""]
            for module in names:
                own = module.startswith("agents.dynamo")
                assert own or module.split(".")[0] in sys.stdlib_module_names, (name, module)
    assert bundle.build_bundle() == bundle.build_bundle()


def old_python(minor: int) -> tuple[str, dict[str, str]] | None:
    """An interpreter of that age, if there is one."""
    name = f"python3.{minor}"
    if not shutil.which(name):
        return None
    installed = [""]
    if pyenv := shutil.which("pyenv"):
        said = subprocess.run(
            [pyenv, "versions", "--bare"], capture_output=True, text=True, check=False
        )
        installed += [v for v in said.stdout.split() if v.startswith(f"3.{minor}.")]
    for version in installed:
        env = {"PYENV_VERSION": version} if version else {}
        ran = subprocess.run(
            [name, "--version"], env={**os.environ, **env}, capture_output=True, check=False
        )
        if ran.returncode == 0:
            return name, env
    return None


@pytest.mark.parametrize("minor", [6, 8])
def test_an_old_python_runs_it(work: Path, minor: int) -> None:
    if (found := old_python(minor)) is None:
        pytest.skip(f"no Python 3.{minor} here")
    config(work)
    python, env = found
    ran = console(work, python=python, **env)
    assert ran.returncode == 0, ran.stderr
    assert figures(work)["iops"] == pytest.approx(1000, rel=0.02)
