# SPDX-License-Identifier: Apache-2.0
"""The reading of a host's facts on any system: first Linux's script, which reports if the host is not Linux."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from agents.contracts import Need, Shell
from agents.facts import freebsd, linux
from agents.facts.model import HostFacts
from agents.facts.sections import bad_facts, decode_text, run_facts_script, split_sections


def read_facts(shell: Shell, programs: Iterable[Need] = (), timeout_s: float = 60.0) -> HostFacts:
    """The host's facts, as root where that works. Raises AgentError (BAD_FACTS, or the connection's)."""
    try:
        return _read_system_facts(shell, tuple(programs), timeout_s)
    except (ValueError, LookupError, ArithmeticError, TypeError, RecursionError) as error:
        # No parser foresees every output: report such a host as not understood.
        raise bad_facts(f"{type(error).__name__}: {error}") from error


def _read_system_facts(shell: Shell, programs: tuple[Need, ...], timeout_s: float) -> HostFacts:
    nonce = secrets.token_hex(8)
    output = run_facts_script(shell, linux.facts_command(programs, nonce), timeout_s)
    system = split_sections(output).get("system")
    if system is None:
        looked = iter([output])
        return linux.read_consistent_facts(
            lambda: (
                next(looked, None)
                or run_facts_script(shell, linux.facts_command(programs, nonce), timeout_s)
            )
        )
    name = decode_text(system.stdout).strip()
    if name != "FreeBSD":
        what = "Linux without /sys/class/block" if name == "Linux" else name or "of no name"
        raise bad_facts(f"its system is {what}; Linux with /sys and FreeBSD can be read")
    return freebsd.parse_freebsd_facts(
        run_facts_script(shell, freebsd.facts_command(programs, nonce), timeout_s)
    )
