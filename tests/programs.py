"""Programs of others that tests compare with, for tests with Django and without."""

from __future__ import annotations

import shutil

import pytest


@pytest.fixture
def ssh_keygen() -> None:
    """For tests that compare with OpenSSH's own tool."""
    if not shutil.which("ssh-keygen"):
        pytest.skip("OpenSSH's ssh-keygen is not installed")
