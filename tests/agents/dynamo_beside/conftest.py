"""A spool in which the console can be run."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.dynamo import bundle
from tests.agents.dynamo_beside.beside import SIM


@pytest.fixture
def work() -> Iterator[Path]:
    """A spool with the program and the simulated dynamo in it; ../mnt is for the files (dynamo needs short paths)."""
    with tempfile.TemporaryDirectory(prefix="bl") as base:
        (Path(base) / "mnt").mkdir()
        spool = Path(base) / "spool"
        spool.mkdir()
        (spool / bundle.NAME).write_bytes(bundle.build_bundle())
        binary = spool / "dynamo"
        binary.write_text(f'#!/bin/sh\nexec {sys.executable} {SIM} "$@"\n')
        binary.chmod(0o755)
        yield spool
