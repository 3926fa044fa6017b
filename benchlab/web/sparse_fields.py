# SPDX-License-Identifier: Apache-2.0
"""`fields`: of each row only what was asked for."""

from __future__ import annotations

from typing import Any

from rest_framework import mixins, serializers
from rest_framework.exceptions import ValidationError

FIELDS_PARAMETER = "fields"


def allows_field_selection(view: Any) -> bool:
    """True when `fields` chooses what the answer has: in lists, and in details that are the serializer's own."""
    if view.action == "retrieve":
        return getattr(type(view), "retrieve", None) is mixins.RetrieveModelMixin.retrieve
    return bool(view.action == "list")


def select_fields(serializer: serializers.Serializer[Any], asked: str) -> None:
    """Only these fields, comma-separated. Raises ValidationError."""
    wanted = {name.strip() for name in asked.split(",")} - {""}
    known = list(serializer.fields)
    if unknown := sorted(wanted - set(known)):
        raise ValidationError(
            {
                FIELDS_PARAMETER: [
                    f"No such field as {', '.join(unknown)}; there are {', '.join(known)}."
                ]
            }
        )
    if not wanted:
        raise ValidationError({FIELDS_PARAMETER: [f"Name some of {', '.join(known)}."]})
    for name in set(known) - wanted:
        serializer.fields.pop(name)
