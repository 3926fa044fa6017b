# SPDX-License-Identifier: Apache-2.0
"""Adding, changing and removing hosts."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from benchlab.hosts.errors import HostsError
from benchlab.hosts.models import Credential, Host
from benchlab.team.models import Team


def add_host(
    team: Team,
    name: str,
    address: str,
    credential: Credential,
    *,
    port: int = 22,
    user: str = "root",
    is_local: bool = False,
    notes: str = "",
) -> Host:
    """Add a host that nobody has contacted yet. Raises HostsError when the team has one of that name."""
    if credential.team_id != team.pk:
        raise HostsError(f"Key {credential.name} belongs to another team.")
    host = Host(
        team=team,
        name=name,
        address=address,
        port=port,
        user=user,
        credential=credential,
        is_local=is_local,
        notes=notes,
    )
    return _save_host(host)


def change_host(host: Host, **fields: object) -> Host:
    """Change some fields. The pinned key stays: another machine at a new address shows another key, which is reported.

    A `host_key` given here is known to be right (our own server's), so it ends every doubt about another one.
    """
    if "host_key" in fields:
        fields |= {"offered_key": "", "trouble": "", "trouble_text": ""}
    for field, value in fields.items():
        setattr(host, field, value)
    return _save_host(host, list(fields))


def delete_host(host: Host) -> None:
    """Delete a host. Raises HostsError while runs or layouts refer to it: results would lose their origin."""
    try:
        with transaction.atomic():
            host.delete()
    except ProtectedError:
        raise HostsError(
            f"{host.name} has runs; their results need it. It can be removed after its campaigns, those that were "
            "deleted once they are gone for good."
        ) from None


def _save_host(host: Host, fields: list[str] | None = None) -> Host:
    try:
        with transaction.atomic():
            host.save(update_fields=fields)
    except IntegrityError:
        raise HostsError(
            f"There is a host named {host.name} already; choose another name."
        ) from None
    return host
