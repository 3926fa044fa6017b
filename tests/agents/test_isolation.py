"""agents/ never imports Django or benchlab. Looked at in another process: here Django is loaded already."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import limits

IMPORT_ALL = """
import importlib, pkgutil, sys
import agents
for found in pkgutil.walk_packages(agents.__path__, "agents."):
    importlib.import_module(found.name)
foreign = sorted(m for m in sys.modules if m.split(".")[0] in ("django", "benchlab"))
sys.exit("agents imports " + ", ".join(foreign[:5]) if foreign else 0)
"""


def test_agents_imports_neither_django_nor_benchlab():
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_test_of_this_folder_has_a_time_limit_when_it_runs_alone_too(request):
    assert request.node.get_closest_marker("timeout").args[0] >= limits.PLAIN_S
