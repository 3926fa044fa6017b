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


def select_fields(serializer: serializers.Serializer[Any], names: str) -> None:
    """Only these fields, comma-separated. Raises ValidationError."""
    selected = {name.strip() for name in names.split(",")} - {""}
    available = list(serializer.fields)
    if unknown := sorted(selected - set(available)):
        raise ValidationError(
            {
                FIELDS_PARAMETER: [
                    f"No such field as {', '.join(unknown)}; there are {', '.join(available)}."
                ]
            }
        )
    if not selected:
        raise ValidationError({FIELDS_PARAMETER: [f"Name some of {', '.join(available)}."]})
    for name in set(available) - selected:
        serializer.fields.pop(name)
