"""The audit of dependencies: what it says, and what CI makes of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from benchlab.up import linting
from benchlab.up.bootstrap import ROOT

GOOD = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1"}]}
# What an index without the advisory service makes pip-audit say, with exit code 0.
SKIPPED = {"name": "c", "skip_reason": "Dependency not found on PyPI and could not be audited"}


@pytest.fixture
def answered(tmp_path, monkeypatch):
    """A pip-audit that says what it is told."""

    def say(*dependencies: dict, code: int = 0) -> None:
        program = tmp_path / "pip-audit"
        told = json.dumps({"dependencies": dependencies, "fixes": []})
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{told}\nEND\nexit {code}\n")
        program.chmod(0o755)
        monkeypatch.setattr(linting, "BIN", tmp_path)

    return say


@pytest.mark.parametrize(
    ("told", "code", "says"),
    [
        ([GOOD], 0, "0 of 1 packages have known vulnerabilities"),
        ([GOOD, BAD], 1, "b 2: PYSEC-1"),
        ([SKIPPED, SKIPPED], 2, "NOT DONE"),
        ([GOOD, SKIPPED], 2, "NOT DONE for 1 of 2 packages"),
        ([GOOD, BAD, SKIPPED], 1, "b 2: PYSEC-1"),
        ([], 2, "NOT DONE"),
    ],
)
def test_the_audit(answered, capsys, told, code, says):
    answered(*told, code=int(BAD in told))
    assert linting.audit() == code
    assert says in capsys.readouterr().out


def test_an_audit_that_cannot_be(tmp_path, monkeypatch, capsys):
    program = tmp_path / "pip-audit"
    program.write_text("#!/bin/sh\necho 'no route to host' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(linting, "BIN", tmp_path)
    assert linting.audit() == 2
    assert "no route to host" in capsys.readouterr().out


@pytest.mark.parametrize(("audit", "expected"), [(0, 0), (1, 1), (2, 0), (3, 1), (127, 1)])
def test_ci_asks_and_fails_on_what_is_known(tmp_path, audit, expected):
    """The real .ci/run beside a manage.py that only says how its commands ended."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    log = tmp_path / "log"
    (tmp_path / "manage.py").write_text(
        "import sys\n"
        f"open({str(log)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
        f"sys.exit({audit} if '--audit' in sys.argv else 0)\n"
    )
    done = subprocess.run([tmp_path / ".ci" / "run"], capture_output=True, text=True)
    assert done.returncode == expected, done.stderr
    assert log.read_text().splitlines() == ["lint", "lint --audit", "test --ci"]
    assert ("NOT audited" in done.stdout) == (audit == 2)
    assert os.access(Path(ROOT / ".ci" / "run"), os.X_OK)
