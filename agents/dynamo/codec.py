"""Whole messages out of a stream that comes in pieces of any length. No socket, no clock. Runs on the host.

The stream has no lengths and no tags: what comes next follows from what was asked, so the caller says which kind it
waits for. Typed contents are in messages.py and results.py.
"""

from typing import Optional

from agents.dynamo.wire import DATA_BYTES, MESSAGE

SIZES = {"message": MESSAGE.size, "data": DATA_BYTES}


class Inbox:
    """Bytes that came and belong to no whole message yet."""

    def __init__(self) -> None:
        self._held = bytearray()

    def __len__(self) -> int:
        return len(self._held)

    def feed(self, data: bytes) -> None:
        self._held += data

    def take(self, kind: str) -> Optional[bytes]:
        """The next message of this kind ("message" or "data"), or None while it is not whole."""
        size = SIZES[kind]
        if len(self._held) < size:
            return None
        whole = bytes(self._held[:size])
        del self._held[:size]
        return whole
