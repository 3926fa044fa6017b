# SPDX-License-Identifier: Apache-2.0
"""`manage.py lint`: every check by name with its verdict; all run, even after one has failed."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchlab.up.bootstrap import ROOT

BIN = Path(sys.prefix) / "bin"
AUDIT_S = 300.0
# mypy's Django plugin loads the settings; no server is asked.
ENV = {
    "DATABASE_URL": "postgresql:///lint",
    "REDIS_URL": "redis://localhost/0",
    # nothing is signed
    "SECRET_KEY": "lint",
    # nor encrypted
    "BENCHLAB_KEY": 43 * "0" + "=",
    "PYTHONPATH": str(ROOT),
}


def checks() -> list[tuple[str, tuple[str, ...]]]:
    """(name, argv) of every check."""
    templates = sorted(str(path) for path in (ROOT / "templates").rglob("*.html"))
    commands = [
        ("ruff check", ("ruff", "check", "--quiet")),
        ("ruff format", ("ruff", "format", "--check", "--quiet")),
        ("mypy --strict", ("mypy",)),
        ("import-linter", ("lint-imports",)),
        ("code counts", ("python", "-m", "benchlab.testing.code_counts")),
    ]
    if templates:
        commands.append(("djade", ("djade", "--check", "--target-version", "5.2", *templates)))
    return commands


def run_lint(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("manage.py lint", description="Check style, types, imports.")
    parser.add_argument(
        "--audit", action="store_true", help="ask pip-audit about known vulnerabilities, instead"
    )
    if parser.parse_args(arguments).audit:
        return audit()
    # mypy takes as long as all others together
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = list(
            pool.map(lambda named_command: check(*named_command), sorted(checks(), key=longest))
        )
    bad = verdicts.count(False)
    print(f"lint: {len(verdicts) - bad} of {len(verdicts)} checks are clean")
    return 1 if bad else 0


def longest(named_command: tuple[str, tuple[str, ...]]) -> bool:
    """Sort key that puts mypy before all others."""
    return "mypy" not in named_command[0]


def audit() -> int:
    """Look for known vulnerabilities in requirements.lock: 0 none, 1 some, 2 the service could not check everything.

    This needs an outside service, so it is not among the other checks, whose verdict must be the same everywhere.
    """
    program = shutil.which("pip-audit", path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}")
    argv = [program] if program else ["uv", "tool", "run", "pip-audit"]
    command = [*argv, "--requirement", "requirements.lock", "--disable-pip", "--require-hashes"]
    try:
        process = subprocess.run(
            [*command, "--progress-spinner", "off", "--format", "json"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=AUDIT_S,
        )
        dependencies = json.loads(process.stdout)["dependencies"]
    except (OSError, subprocess.TimeoutExpired) as error:
        return _not_asked(str(error))
    except (ValueError, KeyError, TypeError):
        return _not_asked(process.stderr.strip()[-1000:] or f"exit code {process.returncode}")
    return _verdict(dependencies)


def _verdict(dependencies: Sequence[dict[str, Any]]) -> int:
    """The verdict of pip-audit, which also exits with 0 if the index has no advisories and it skips every package."""
    bad = [dependency for dependency in dependencies if dependency.get("vulns")]
    skipped = [dependency for dependency in dependencies if "vulns" not in dependency]
    for dependency in bad:
        ids = ", ".join(each["id"] for each in dependency["vulns"])
        print(f"audit: {dependency['name']} {dependency['version']}: {ids}")
    audited = len(dependencies) - len(skipped)
    if audited:
        print(f"audit: {len(bad)} of {audited} packages have known vulnerabilities")
    if skipped or not dependencies:
        why = str(skipped[0].get("skip_reason", "no reason given")) if skipped else "no packages"
        unknown = _not_asked(why, f" for {len(skipped)} of {len(dependencies)} packages")
        return 1 if bad else unknown
    return 1 if bad else 0


def _not_asked(why: str, which: str = "") -> int:
    print(f"audit: NOT DONE{which}, no service could be reached: {why}")
    print("audit: it needs pip-audit (or uv, which fetches it) and its vulnerability service")
    return 2


def check(name: str, argv: Sequence[str]) -> bool:
    """Run a check; show its output only if there is any."""
    begun = time.monotonic()
    process = subprocess.run(
        [BIN / argv[0], *argv[1:]],
        cwd=ROOT,
        env={**os.environ, **ENV},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    clean = process.returncode == 0
    verdict = f"{name:15} {'clean' if clean else 'FAILED'}  ({time.monotonic() - begun:.1f} s)\n"
    # Written in one piece, as other checks print at the same time.
    sys.stdout.write(verdict if clean else f"{verdict}{process.stdout.rstrip()}\n")
    sys.stdout.flush()
    return clean
