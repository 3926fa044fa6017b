# SPDX-License-Identifier: Apache-2.0
"""A checkout or an installed package: where its files are, and what a person types. Standard library only."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
# The checkout; of an installed package the directory that holds `benchlab` and `agents`.
ROOT = PACKAGE.parent
# pyproject.toml packs there what lies at the top of a checkout.
PACKED = PACKAGE / "_data"
INSTALLED = PACKED.is_dir()
# Holds `templates`, `static` and `docs`.
DATA = PACKED if INSTALLED else ROOT


def command(words: str) -> str:
    """The command line that a person types for a BenchLab command."""
    return f"benchlab {words}" if INSTALLED else f"python3 manage.py {words}"


def program() -> tuple[str, ...]:
    """The first words of an argv that runs this very program from any directory."""
    if INSTALLED:
        # Without -P, Python would look for modules in the current directory first.
        return (sys.executable, "-P", "-m", "benchlab.up")
    return (sys.executable, str(ROOT / "manage.py"))


def state_path() -> Path:
    """The state directory: BENCHLAB_STATE, else the usual one. Raises RuntimeError if there is neither."""
    own = os.environ.get("BENCHLAB_STATE")
    return Path(own).absolute() if own else usual_state_path()


def usual_state_path() -> Path:
    """The default state directory: `.benchlab` in a checkout, else the user's XDG state directory.

    Raises RuntimeError for a user without a home directory.
    """
    if not INSTALLED:
        return ROOT / ".benchlab"
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    # The XDG standard says to ignore relative paths.
    return (base if base.is_absolute() else Path.home() / ".local" / "state") / "benchlab"
