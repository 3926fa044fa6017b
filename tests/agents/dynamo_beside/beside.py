"""The program on the host, run beside a simulated dynamo over real sockets, and what it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from agents.dynamo import bundle
from tests.agents import dynamo_sim

SIM = Path(dynamo_sim.__file__)
MIB = 1 << 20


def config(work: Path, **changes: Any) -> None:
    plain = {
        "binary": str(work / "dynamo"), "access": ["8192,100,50,50"], "mount": str(work.parent / "mnt"),
        "size": MIB, "duration": 0.3, "poll": 0.1,
    }  # fmt: skip
    (work / "config.json").write_text(json.dumps({**plain, **changes}))


def console(work: Path, sim: str = "", verb: str = "run", python: str = sys.executable,
            **env: str) -> subprocess.CompletedProcess[str]:  # fmt: skip
    return subprocess.run(
        [python, bundle.NAME, verb, "config.json"], cwd=work, timeout=60, capture_output=True,
        text=True, env={**os.environ, "SIM": sim, **env}, check=False,
    )  # fmt: skip


def result(work: Path) -> dict[str, Any]:
    return json.loads((work / "result.json").read_text())


def figures(work: Path) -> dict[str, float]:
    return {row[0]: row[1] for row in result(work)["metrics"] if not row[3]}


def asked(work: Path) -> list[str]:
    return [line.split()[0] for line in (work / "sim.log").read_text().splitlines()]


def leftovers(work: Path) -> list[str]:
    """Processes that still work in the spool."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == work:
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return found


def started(work: Path, sim: str, until: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, bundle.NAME, "run", "config.json"], cwd=work, env={**os.environ, "SIM": sim},
        stderr=subprocess.PIPE,
    )  # fmt: skip
    for _ in range(300):
        if (work / "live.jsonl").exists() and f'"{until}"' in (work / "live.jsonl").read_text():
            return process
        time.sleep(0.05)
    raise AssertionError(f"no phase {until}")
