"""A Shell on this machine, without SSH: unit tests of what runs on the host."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.contracts import AgentError, Argument, Ran, Reason
from agents.quote import plain_text


@dataclass(frozen=True)
class LocalShell:
    """Runs argv in a session of its own, as sshd does; as the current user, or (for root) as `uid`."""

    env: Mapping[str, str] = field(default_factory=dict)
    uid: int | None = None

    def run(
        self,
        argv: Sequence[Argument],
        *,
        stdin: bytes = b"",
        root: bool = False,
        timeout_s: float = 60.0,
    ) -> Ran:
        began = time.monotonic()
        try:
            done = subprocess.run(
                [plain_text(argument) for argument in argv],
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
                env={**os.environ, "LC_ALL": "C", **self.env},
                start_new_session=True,
                user=self.uid,
                group=self.uid,
            )
        except subprocess.TimeoutExpired:
            raise AgentError(f"not over after {timeout_s:g} s", Reason.TIMED_OUT) from None
        code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        return Ran(tuple(argv), code, done.stdout, done.stderr, time.monotonic() - began)
