# SPDX-License-Identifier: Apache-2.0
"""Shell that runs on hosts, read by shellcheck."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from agents import hostside

# Scripts share variables when they are joined; every sh on a host has -ef; "a= b=" sets several names to nothing; the
# directory that is removed was checked before.
IGNORED = ("SC2034", "SC2154", "SC3013", "SC1007", "SC2115")
SCRIPTS = sorted(Path(hostside.__path__[0]).glob("*.sh"))


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck here")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_shellcheck_has_nothing_to_warn_of(script):
    argv = ["shellcheck", "--shell=sh", "--severity=warning", f"--exclude={','.join(IGNORED)}"]
    run = subprocess.run([*argv, str(script)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
