# SPDX-License-Identifier: Apache-2.0
"""Journal of the tests that passed in a nightly run, so that an interrupted run can continue after them.

One line a test, with its seconds, in a file of `.pytest_cache`, named for the sources: another commit, or another
change to a tracked file, begins anew.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from benchlab.up.bootstrap import ROOT

JOURNAL, BEFORE = "BENCHLAB_TEST_JOURNAL", "BENCHLAB_TEST_PASSED_BEFORE"


def commit(root: Path = ROOT) -> str:
    """The checked-out commit's hash; "" outside of git."""
    return _git(root, "rev-parse", "HEAD").strip()


def open_for(root: Path, anew: bool = False) -> Path:
    """The journal of the sources as they are now; other journals are removed, and with `anew` this one."""
    sources = commit(root) + _git(root, "diff", "HEAD")
    name = hashlib.sha256(sources.encode()).hexdigest()[:12]
    place = root / ".pytest_cache" / "benchlab" / f"full-{name}"
    place.parent.mkdir(parents=True, exist_ok=True)
    for other in place.parent.glob("full-*"):
        if anew or other != place:
            other.unlink()
    return place


def note(place: Path, test: str, seconds: float) -> None:
    """Record that a test (by node id) has passed in so many seconds."""
    with place.open("a") as file:
        file.write(f"{test}\t{seconds:.2f}\n")


def read_journal(place: Path) -> dict[str, float]:
    """Seconds by node id. An incomplete last line is skipped: its test runs again."""
    try:
        text = place.read_text()
    except OSError:
        return {}
    records = (line.rpartition("\t") for line in text.splitlines(keepends=True))
    return {test: float(seconds) for test, _, seconds in records if test and seconds.endswith("\n")}


def _git(root: Path, *words: str) -> str:
    try:
        process = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return process.stdout if process.returncode == 0 else ""
