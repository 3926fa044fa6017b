"""What an `up` that was killed left running: found by pid and start time, never by name."""

from __future__ import annotations

import signal

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
