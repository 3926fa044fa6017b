"""Programs of others that tests compare with, for tests with Django and without."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@pytest.fixture
def ssh_keygen() -> None:
    """For tests that compare with OpenSSH's own tool."""
    if not shutil.which("ssh-keygen"):
        pytest.skip("OpenSSH's ssh-keygen is not installed")


@contextmanager
def roots_directory() -> Iterator[Path]:
    """A directory whose programs root may run: root's alone all the way up, as those in /tmp are not."""
    base = Path.home() if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(dir=base, prefix="bl") as name:
        yield Path(name).resolve()
