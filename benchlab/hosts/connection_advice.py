# SPDX-License-Identifier: Apache-2.0
"""Reasons why a host does not answer, in words, each with a remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agents.contracts import Reason


@dataclass(frozen=True, slots=True)
class Advice:
    title: str
    cure: str


ADVICE: Mapping[str, Advice] = {
    Reason.CONNECTION_REFUSED: Advice(
        "Connection refused",
        "The machine answers, but nothing listens on that port. Start its SSH server "
        "(systemctl start ssh, or sshd), or correct the port.",
    ),
    Reason.TIMED_OUT: Advice(
        "Timed out",
        "Nothing answered. Is the machine up, is the address right, and does a firewall let this "
        "server through to that port?",
    ),
    Reason.AUTHENTICATION_FAILED: Advice(
        "Authentication failed",
        "The host rejected our key for that user. Install the public key in the user's "
        "~/.ssh/authorized_keys (mode 600, in a directory of mode 700), or correct the user.",
    ),
    Reason.NAME_NOT_FOUND: Advice(
        "Name not found",
        "The address is a name that this server cannot resolve. Correct the name, add it to DNS, or "
        "use the IP address.",
    ),
    Reason.FORBIDDEN_ADDRESS: Advice(
        "Address not allowed",
        "No host may be in that network: link-local addresses hold the metadata of clouds, with their keys. "
        "Correct the address; whoever runs BenchLab decides by BENCHLAB_FORBID_NETS.",
    ),
    Reason.HOST_KEY_CHANGED: Advice(
        "The host's key changed",
        "It does not identify itself as the machine that was confirmed. Nothing runs there until a "
        "person has compared the fingerprints.",
    ),
    Reason.HOST_KEY_UNKNOWN: Advice(
        "The host's key is not confirmed",
        "Compare the fingerprint with the one that the host itself prints, and confirm it.",
    ),
    Reason.CONNECTION_LOST: Advice(
        "Connection lost",
        "The host stopped answering in the middle. Read its facts again once it is back.",
    ),
    Reason.NO_SUDO: Advice(
        "No passwordless sudo",
        "The user is not root and may not use sudo without a password, so disks can neither be "
        "looked into nor used. Allow it in /etc/sudoers.d, or log in as root.",
    ),
    Reason.BAD_FACTS: Advice(
        "The host's answers could not be read",
        "A command on the host printed something unexpected; see the message. BenchLab does "
        "nothing to a host whose output it cannot read.",
    ),
    Reason.INTERNAL: Advice(
        "Internal error",
        "The host itself may be fine. See the message, then read the host's facts again.",
    ),
}


def concerns_host(reason: Reason) -> bool:
    """True when an error is about the host; not for a tool that failed there, or a plan that does not fit."""
    return reason in ADVICE


def advice(reason: str) -> Advice:
    return ADVICE.get(reason, ADVICE[Reason.INTERNAL])
