"""What an `up` that was killed left running: found by pid and start time, never by name."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from benchlab.up.bootstrap import WAITING
from benchlab.up.postgres import STOP_SIGNAL
from benchlab.up.procs import Identity, end, identity_from_json
from benchlab.up.state import State, read_json

PATIENCE_S = 15.0


def recorded(state: State) -> list[Identity]:
    """The children that the last supervisor wrote down."""
    listed = read_json(state.children).get("children")
    found = [identity_from_json(item) for item in listed] if isinstance(listed, list) else []
    return [identity for identity in found if identity]


def end_leftovers(state: State) -> list[str]:
    """End them, the database last; returns the names of those that still ran.

    A benchmark that runs here over our SSH server is none of them: it goes on, and the engine reads on.
    """
    alive = [identity for identity in recorded(state) if identity.alive]
    stores = [identity for identity in alive if identity.name == "postgres"]
    end([identity for identity in alive if identity not in stores], signal.SIGTERM, PATIENCE_S)
    end(stores, STOP_SIGNAL, PATIENCE_S)
    return [identity.name for identity in alive]


def running_apt(state: State) -> Identity | None:
    """The apt that a helper of `up` started, while it runs; it may outlive that helper."""
    found = identity_from_json(read_json(state.apt))
    return found if found and found.alive else None


def wait_for_apt(
    state: State,
    pause: Callable[[float], object] = time.sleep,
    say: Callable[[str], object] = lambda text: None,
) -> None:
    """Ending it could leave a package half configured, so nobody does, however long it takes."""
    if running_apt(state):
        say(WAITING)
    while running_apt(state):
        pause(0.05)
    state.apt.unlink(missing_ok=True)
