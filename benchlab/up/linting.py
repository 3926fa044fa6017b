"""`manage.py lint`: every check by name with its verdict; all run, also when one has failed."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchlab.up.bootstrap import ROOT

BIN = Path(sys.prefix) / "bin"
# mypy's Django plugin loads the settings; no server is asked.
ENV = {
    "DATABASE_URL": "postgresql:///lint",
    "REDIS_URL": "redis://localhost/0",
    "SECRET_KEY": "lint",
    "BENCHLAB_KEY": "lint",
    "PYTHONPATH": str(ROOT),
}


def checks() -> list[tuple[str, tuple[str, ...]]]:
    """(name, argv) of every check."""
    templates = sorted(str(path) for path in (ROOT / "templates").rglob("*.html"))
    found = [
        ("ruff check", ("ruff", "check", "--quiet")),
        ("ruff format", ("ruff", "format", "--check", "--quiet")),
        ("mypy --strict", ("mypy",)),
        ("import-linter", ("lint-imports",)),
    ]
    if templates:
        found.append(("djade", ("djade", "--check", "--target-version", "5.2", *templates)))
    return found


def run_lint(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("manage.py lint", description="Check style, types, imports.")
    parser.parse_args(arguments)
    verdicts = [check(name, argv) for name, argv in checks()]
    bad = verdicts.count(False)
    print(f"lint: {len(verdicts) - bad} of {len(verdicts)} checks are clean")
    return 1 if bad else 0


def check(name: str, argv: Sequence[str]) -> bool:
    """Run one; its output is shown only when it has something to say."""
    begun = time.monotonic()
    done = subprocess.run(
        [BIN / argv[0], *argv[1:]],
        cwd=ROOT,
        env={**os.environ, **ENV},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    clean = done.returncode == 0
    print(f"{name:15} {'clean' if clean else 'FAILED'}  ({time.monotonic() - begun:.1f} s)")
    if not clean:
        print(done.stdout.rstrip())
    sys.stdout.flush()
    return clean
