"""Every source file of ours names the license in its first line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchlab.installation import ROOT
from benchlab.practice.recipe import recipe_id

LICENSE = "SPDX-License-Identifier: Apache-2.0"
HEADERS = {
    ".py": f"# {LICENSE}",
    ".sh": f"# {LICENSE}",
    ".js": f"// {LICENSE}",
    ".css": f"/* {LICENSE} */",
}


def source_files() -> list[Path]:
    """Migrations, other people's files and empty modules carry no header."""
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(
        [*argv, "manage.py", "agents", "benchlab", "static"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    paths = [ROOT / name for name in names if "/migrations/" not in name and "/vendor/" not in name]
    return [path for path in paths if path.suffix in HEADERS and path.exists()]


def names_license(name: str, text: str) -> bool:
    """A script's interpreter stays in the first line, and the license follows."""
    lines = text.splitlines()
    if lines and lines[0].startswith("#!"):
        del lines[0]
    return not lines or lines[0] == HEADERS[Path(name).suffix]


def test_source_files_name_the_license():
    paths = source_files()
    assert {path.suffix for path in paths} == set(HEADERS)
    assert [str(path) for path in paths if not names_license(path.name, path.read_text())] == []


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("a.py", f"# {LICENSE}\n", True),
        ("a.py", f"#!/usr/bin/env python3\n# {LICENSE}\n", True),
        ("a.py", "", True),
        ("a.py", f'"""Text."""\n# {LICENSE}\n', False),
        ("a.css", f"// {LICENSE}\n", False),
    ],
)
def test_headers_are_told_apart(name, text, named):
    assert names_license(name, text) is named


def test_the_license_does_not_rebuild_an_image(tmp_path, monkeypatch):
    monkeypatch.setattr("benchlab.practice.recipe.__file__", str(tmp_path / "recipe.py"))
    source = tmp_path / "tree.py"
    source.write_text("x = 1\n")
    bare = recipe_id((), source)
    source.write_text(f"{HEADERS['.py']}\nx = 1\n")
    assert recipe_id((), source) == bare
    source.write_text(f"{HEADERS['.py']}\nx = 2\n")
    assert recipe_id((), source) != bare
