# SPDX-License-Identifier: Apache-2.0
"""Access to a host by SSH: the key that it must show, and why it cannot be reached."""

from __future__ import annotations

from contextlib import suppress

from django.conf import settings
from django.db import transaction

from agents.contracts import AgentError, Reason, Secret, Shell
from agents.ssh import shell
from benchlab import vault
from benchlab.hosts.connection_advice import concerns_host
from benchlab.hosts.errors import HostsError
from benchlab.hosts.models import Host
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
