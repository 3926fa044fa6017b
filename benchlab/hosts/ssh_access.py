# SPDX-License-Identifier: Apache-2.0
"""Access to a host by SSH: the key that it must show, and why it cannot be reached, in words, each with a remedy."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction

from agents.contracts import AgentError, Reason, Secret, Shell
from agents.ssh import shell
from benchlab import vault
from benchlab.hosts.models import Host, HostsError
from benchlab.vault import VaultError


def connect_to_host(host: Host) -> Shell:
    """A shell on the host. Raises AgentError; a key that nobody confirmed, or that changed, is refused."""
    return shell.connect_shell(_ssh_address(host))


def unconnected_shell(host: Host) -> Shell:
    """Shell as `connect` returns it, but connected only with the first command. Raises AgentError."""
    return shell.SshShell(_ssh_address(host))


def _ssh_address(host: Host) -> shell.Address:
    if key_changed(host):
        pinned, presented = fingerprints(host)
        # Also when the old key is shown again: somebody answered in the host's place, and a person must look.
        raise AgentError(
            f"{host.name} presented host key {presented} instead of the pinned "
            f"{pinned}; nothing runs there until a person has decided which is right",
            Reason.HOST_KEY_CHANGED,
        )
    if host.credential is None:
        raise AgentError(f"{host.name} is not reached by SSH: {host.get_access_display()}")
    try:
        private = vault.decrypt(host.credential.private_key)
    except VaultError as error:
        raise AgentError(f"{host.name}: key {host.credential.name}: {error}") from None
    return shell.Address(
        host.address,
        host.port,
        host.user,
        Secret(private),
        host.host_key,
        settings.BENCHLAB_FORBID_NETS,
        host.team_id,
    )


def try_again(host: Host) -> None:
    """Try the next connection at once, however recently the last one failed: a person wants to know now."""
    # Connecting reports it.
    with suppress(AgentError):
        shell.try_again(_ssh_address(host))


def key_changed(host: Host) -> bool:
    """True when the host showed a key other than the pinned one and nobody has decided yet."""
    return bool(host.host_key and host.offered_key)


def fingerprints(host: Host) -> tuple[str, str]:
    """Fingerprints of the pinned key and of the one that awaits a person's decision; "" where there is none."""
    pinned, presented = host.host_key, host.offered_key
    return (
        shell.fingerprint(pinned) if pinned else "",
        shell.fingerprint(presented) if presented else "",
    )


def offer_key(host: Host) -> str:
    """Ask the host for its key and keep it for a person to confirm; its fingerprint. The pinned key is no offer.

    Raises AgentError, and records it with the host.
    """
    try:
        presented_key = _fetch_host_key(host)
    except AgentError as error:
        record_trouble(host, error)
        raise
    host.offered_key = "" if presented_key.public_key == host.host_key else presented_key.public_key
    host.trouble, host.trouble_text = "", ""
    if key_changed(host):
        host.trouble = Reason.HOST_KEY_CHANGED
        host.trouble_text = f"It now offers {presented_key.fingerprint}."
    host.save(update_fields=["offered_key", "trouble", "trouble_text"])
    return presented_key.fingerprint


def _fetch_host_key(host: Host) -> shell.HostKey:
    return shell.offered_host_key(
        host.address, host.port, forbidden=settings.BENCHLAB_FORBID_NETS, group=host.team_id
    )


@transaction.atomic
def confirm_key(host: Host, fingerprint: str) -> None:
    """Pin the offered key, when it is the one whose fingerprint the person saw. Raises HostsError otherwise."""
    fresh = Host.objects.select_for_update().get(pk=host.pk)
    if not fresh.offered_key:
        raise HostsError(f"{host.name} has no key waiting to be confirmed; fetch it first.")
    presented = shell.fingerprint(fresh.offered_key)
    if fingerprint.strip() != presented:
        raise HostsError(
            f"The fingerprint {fingerprint.strip()!r} is not the one that {host.name} shows, {presented}. "
            "Nothing was pinned; compare again."
        )
    _store_decision(host, fresh.offered_key)


@transaction.atomic
def keep_key(host: Host) -> None:
    """Reject a changed key: the pinned one stays the only one that is accepted."""
    _store_decision(host, Host.objects.select_for_update().get(pk=host.pk).host_key)


def _store_decision(host: Host, key: str) -> None:
    host.host_key, host.offered_key, host.trouble, host.trouble_text = key, "", "", ""
    host.save(update_fields=["host_key", "offered_key", "trouble", "trouble_text"])


def record_trouble(host: Host, error: AgentError) -> None:
    """Store why the host did not answer; for a changed key, also the key that it shows.

    Errors that are not about the host itself (a tool failed) are not stored here.
    """
    if not concerns_host(error.reason):
        return
    host.trouble, host.trouble_text = error.reason.value, str(error)
    if error.reason is Reason.HOST_KEY_CHANGED and not host.offered_key:
        host.offered_key = _changed_key(host)
    host.save(update_fields=["trouble", "trouble_text", "offered_key"])


def _changed_key(host: Host) -> str:
    """Key that the host shows; "" when it shows the pinned one again or nothing at all."""
    try:
        key = _fetch_host_key(host).public_key
    except AgentError:
        return ""
    return "" if key == host.host_key else key


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
