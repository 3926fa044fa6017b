"""Which tests of a night's run have passed: a run that was interrupted goes on behind them.

One line a test in a file of `.pytest_cache`, named for the sources: another commit, or another change to a tracked
file, begins anew.
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


def passed(place: Path) -> frozenset[str]:
    """Node ids; a last line that was cut short is no name of a test, and harms nobody."""
    try:
        return frozenset(place.read_text().splitlines())
    except OSError:
        return frozenset()


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""
