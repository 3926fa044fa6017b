"""The documents build as a site without a warning: each page is in the navigation, each link leads to a heading."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchlab.installation import ROOT

pytestmark = pytest.mark.slow


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E", "-b", "html"]
    return subprocess.run(
        [*argv, "-d", target / "doctrees", source, target / "html"], capture_output=True, text=True
    )


def test_the_site_builds_without_a_warning(tmp_path):
    done = build(ROOT, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first = (tmp_path / "html" / "README.html").read_text()
    assert 'href="docs/guide.html"' in first and 'href="docs/decisions/README.html"' in first


def test_a_page_outside_of_the_navigation_fails(tmp_path):
    source = tmp_path / "source"
    (source / "benchlab").mkdir(parents=True)
    (source / "static").mkdir()
    for name in ("conf.py", "benchlab/__init__.py", "static/icon.svg"):
        (source / name).write_text((ROOT / name).read_text())
    (source / "README.md").write_text("# Title\n")
    (source / "docs").mkdir()
    (source / "docs" / "unlisted").with_suffix(".md").write_text("# New\n\n[gone](missing)\n")
    done = build(source, tmp_path)
    assert done.returncode
    assert re.search(r"unlisted\S+ WARNING: document isn't included in any toctree", done.stderr)
    assert "cross-reference target not found: 'missing'" in done.stderr
