"""User Mode Linux on CPUs with AMX, whose registers are more than its kernel 6.1 can hold: see uml-shim/xstate.c."""

import hashlib
from pathlib import Path

from benchlab.practice.errors import run
from benchlab.practice.machine import COMPILER, Progress, wide_registers
from benchlab.practice.store import ensure

_SOURCE = Path(__file__).with_name("uml-shim") / "xstate.c"
_ROOM_MB = 1


def preloaded(progress: Progress = lambda _: None) -> tuple[str, ...]:
    """Words before the kernel's: () on a CPU that needs none, else `env` with the shim, compiled now if need be."""
    if not wide_registers():
        return ()

    def fill(work: Path) -> None:
        # Without libc6-dev: what it calls is in every process of the C library.
        how = ("-O2", "-shared", "-fPIC", "-nostdlib", "-fno-builtin")
        run((COMPILER, *how, "-o", str(work / "xstate.so"), str(_SOURCE)))

    name = f"xstate-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]}"
    return ("env", f"LD_PRELOAD={ensure(name, _ROOM_MB, fill, progress) / 'xstate.so'}")
