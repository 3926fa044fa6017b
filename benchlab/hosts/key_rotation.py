# SPDX-License-Identifier: Apache-2.0
"""Every stored secret under the newest key of BENCHLAB_KEY, so that an old key can be thrown away.

One row at a time, each in a transaction of its own: what was done when it is cut off is done, and the next call does
the rest. Rows that are under the newest key already are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from allauth.mfa.models import Authenticator
from django.db import transaction
from django.db.models import Model

from benchlab import vault
from benchlab.hosts.models import Credential

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
