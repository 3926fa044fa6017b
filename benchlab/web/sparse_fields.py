# SPDX-License-Identifier: Apache-2.0
"""`fields`: of each row only what was asked for."""

from __future__ import annotations

from typing import Any

from rest_framework import mixins, serializers
from rest_framework.exceptions import ValidationError

FIELDS = "fields"


def sparse(view: Any) -> bool:
    """True when `fields` chooses what the answer has: in lists, and in details that are the serializer's own."""
    if view.action == "retrieve":
        return getattr(type(view), "retrieve", None) is mixins.RetrieveModelMixin.retrieve
    return bool(view.action == "list")


def leave(serializer: serializers.Serializer[Any], asked: str) -> None:
    """Only these fields, comma-separated. Raises ValidationError."""
    wanted = {name.strip() for name in asked.split(",")} - {""}
    known = list(serializer.fields)
    if unknown := sorted(wanted - set(known)):
        raise ValidationError(
            {FIELDS: [f"No such field as {', '.join(unknown)}; there are {', '.join(known)}."]}
        )
    if not wanted:
        raise ValidationError({FIELDS: [f"Name some of {', '.join(known)}."]})
    for name in set(known) - wanted:
        serializer.fields.pop(name)
