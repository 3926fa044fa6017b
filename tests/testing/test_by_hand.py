"""`pytest` typed by hand: tests/agents needs nothing of Django, the rest starts its own stores."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchlab.testing import leftovers
from benchlab.up.bootstrap import ROOT

NEEDS = (
    "DATABASE_URL",
    "REDIS_URL",
    "SECRET_KEY",
    "BENCHLAB_KEY",
    "BENCHLAB_STATE",
    "DJANGO_SETTINGS_MODULE",
)
BARE = {
    key: value
    for key, value in os.environ.items()
    if key not in (*NEEDS, "PYTHONPATH", leftovers.RUN) and not key.startswith("PYTEST")
}
ALONE = """
import sys, pytest
code = pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]])
loaded = {"django", "psycopg", "celery"} & set(sys.modules)
sys.exit(f"loaded: {loaded}" if loaded else int(code))
"""


@pytest.mark.parametrize("where", [ROOT, ROOT / "tests" / "agents"], ids=["root", "there"])
def test_drivers_are_tested_without_django_and_stores(where):
    file = (ROOT / "tests" / "agents" / "test_uuids.py").relative_to(ROOT)
    argv = [sys.executable, "-c", ALONE, str(file if where == ROOT else file.name)]
    done = subprocess.run(argv, cwd=where, env=BARE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.night
@pytest.mark.parametrize("processes", ["0", "2"])
def test_other_tests_start_what_they_need(processes):
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        processes,
        "tests/runs/test_moves.py",
        "-k",
        "transition",
    ]
    done = subprocess.run(argv, cwd=ROOT, env=BARE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
