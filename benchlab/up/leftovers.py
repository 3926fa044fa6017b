# SPDX-License-Identifier: Apache-2.0
"""Processes that a killed `up` left running: found by pid and start time, never by name."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agents.drivers import packages
from agents.jobs.spool import tell_stopped
from benchlab.up.bootstrap import WAITING
from benchlab.up.postgres import STOP_SIGNAL
from benchlab.up.procs import Identity, end, identity_from_json, with_environment
from benchlab.up.state import State, marker, read_json

FINISHES = "=".join(*packages.FINISHES.items())
PATIENCE_S = 15.0


def recorded(state: State) -> list[Identity]:
    """The children that the last supervisor wrote down."""
    listed = read_json(state.children).get("children")
    identities = [identity_from_json(item) for item in listed] if isinstance(listed, list) else []
    return [identity for identity in identities if identity]


def end_leftovers(state: State) -> list[str]:
    """End the processes, the database last; return the names of those that still ran.

    A benchmark that runs here over our SSH server is not among them: it goes on, and the engine still reads it.
    """
    alive = [identity for identity in recorded(state) if identity.alive]
    stores = [identity for identity in alive if identity.name == "postgres"]
    end([identity for identity in alive if identity not in stores], signal.SIGTERM, PATIENCE_S)
    end(stores, STOP_SIGNAL, PATIENCE_S)
    return [identity.name for identity in alive]


def end_jobs(state: State, pause: Callable[[float], None] = time.sleep) -> list[Identity]:
    """End and return our SSH jobs on this machine. A run in progress counts as interrupted, not failed."""
    processes = with_environment(marker(state))
    for process in processes:
        with suppress(OSError):
            tell_stopped(Path(f"/proc/{process.pid}/cwd"))
    end(processes, pause=pause)
    return processes


def finishing(state: State) -> list[Identity]:
    """Our running installers. They must finish, and may outlive the helper of `up` that started them."""
    helpers = identity_from_json(read_json(state.apt))
    ours = {process.pid for process in with_environment(marker(state))}
    finishers = [process for process in with_environment(FINISHES) if process.pid in ours]
    return [process for process in (helpers, *finishers) if process and process.alive]


def wait_for_installers(
    state: State,
    pause: Callable[[float], object] = time.sleep,
    say: Callable[[str], object] = lambda text: None,
) -> None:
    """Wait for installers, however long it takes: ending one could leave a package half configured."""
    if finishing(state):
        say(WAITING)
    while finishing(state):
        pause(0.2)
    state.apt.unlink(missing_ok=True)
