# SPDX-License-Identifier: Apache-2.0
"""Adding, changing and removing hosts and their SSH key pairs, and putting every stored secret under the newest key.

A key pair is made here, or uploaded. The private half never leaves the vault but towards the SSH library. To rotate,
the newest key of BENCHLAB_KEY encrypts one row at a time, each in a transaction of its own: what was done when it is
cut off is done, and the next call does the rest. Rows that are under the newest key already are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from allauth.mfa.models import Authenticator
from django.db import IntegrityError, transaction
from django.db.models import Model, ProtectedError
from django.utils.text import slugify

from agents.contracts import AgentError
from agents.ssh import keys
from benchlab import vault
from benchlab.hosts.models import Credential, Host, HostsError
from benchlab.team.models import Team
from benchlab.web.texts import free_name


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
    for name, value in fields.items():
        setattr(host, name, value)
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


def make_credential(team: Team, name: str) -> Credential:
    """Generate an Ed25519 key pair. Raises HostsError when the team has one of that name."""
    private, public = keys.generate_key_pair("benchlab")
    return _store_credential(team, name, private, public, uploaded=False)


def upload_credential(team: Team, name: str, private_text: str) -> Credential:
    """Store a private key that a person brings. Raises HostsError when it is none, or is locked by a passphrase."""
    private = private_text.replace("\r\n", "\n").strip() + "\n"
    try:
        public = keys.check_private_key(private)
    except AgentError as error:
        raise HostsError(str(error)) from None
    return _store_credential(team, name, private, public, uploaded=True)


def free_key_name(team: Team, name: str) -> str:
    """`name`, or "name 2", … while the team has a key of that name."""
    return free_name(name, set(team.credentials.values_list("name", flat=True)))


def delete_credential(credential: Credential) -> None:
    """Delete a key pair. Raises HostsError while hosts use it."""
    try:
        credential.delete()
    except ProtectedError:
        users = ", ".join(credential.hosts.values_list("name", flat=True))
        raise HostsError(f"Key {credential.name} is in use by {users}.") from None


def _store_credential(
    team: Team, name: str, private: str, public: str, *, uploaded: bool
) -> Credential:
    try:
        with transaction.atomic():
            return Credential.objects.create(
                team=team,
                name=name,
                # People paste this line into a shell: no comment but ours, which needs no quoting.
                public_key=" ".join([*public.split()[:2], f"benchlab-{slugify(name)}"]),
                private_key=vault.encrypt(private),
                uploaded=uploaded,
            )
    except IntegrityError:
        raise HostsError(f"There is a key named {name} already; choose another name.") from None


# how everything of Fernet's begins
FERNET_PREFIX = "gAAAA"


@dataclass
class RotationResult:
    """`lost`: what none of the keys opens, in words."""

    renewed: int = 0
    already: int = 0
    lost: list[str] = field(default_factory=list)


def rotate_secrets() -> RotationResult:
    result = RotationResult()
    for model, field_name, renew in SECRET_FIELDS:
        for pk in list(model._default_manager.order_by("pk").values_list("pk", flat=True)):
            _renew_row(result, model, pk, field_name, renew)
    return result


def unreadable_credentials() -> list[str]:
    """Names of the SSH keys that no key of BENCHLAB_KEY opens."""
    wrong = []
    for row in Credential.objects.all():
        try:
            vault.decrypt(bytes(row.private_key))
        except vault.VaultError:
            wrong.append(row.name)
    return wrong


def _renew_row(
    result: RotationResult, model: type[Model], pk: int, name: str, renew: Callable[[Any], Any]
) -> None:
    with transaction.atomic():
        row = model._default_manager.select_for_update().filter(pk=pk).first()
        if row is None:
            # removed meanwhile
            return
        old = getattr(row, name)
        try:
            new = renew(old)
        except vault.VaultError as error:
            result.lost.append(f"{model._meta.verbose_name} {pk} ({row}): {error}")
            return
        if new == old:
            result.already += 1
            return
        setattr(row, name, new)
        row.save(update_fields=[name])
        result.renewed += 1


def _renew_bytes(sealed: Any) -> bytes:
    return vault.reencrypt(bytes(sealed))


def _renew_json(data: Any) -> Any:
    """Sealed texts anywhere in a JSON value: allauth keeps a secret, a seed of recovery codes, or a list of them."""
    if isinstance(data, str) and data.startswith(FERNET_PREFIX):
        return vault.reencrypt(data.encode()).decode()
    if isinstance(data, Mapping):
        return {key: _renew_json(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_renew_json(value) for value in data]
    return data


# Every place that holds secrets; tests/security/test_rotation.py searches the whole database for others.
SECRET_FIELDS: tuple[tuple[type[Model], str, Callable[[Any], Any]], ...] = (
    (Credential, "private_key", _renew_bytes),
    (Authenticator, "data", _renew_json),
)
