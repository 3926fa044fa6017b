# SPDX-License-Identifier: Apache-2.0
"""SSH key pairs: made here, or uploaded. The private half never leaves the vault but towards the SSH library."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils.text import slugify

from agents.contracts import AgentError
from agents.ssh import keys
from benchlab import vault
from benchlab.hosts.errors import HostsError
from benchlab.hosts.models import Credential
from benchlab.team.models import Team
from benchlab.web.texts import free_name


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
