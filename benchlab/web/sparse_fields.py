# SPDX-License-Identifier: Apache-2.0
"""Fields that a request names: `fields` chooses those of each row; a body with an unknown one is refused, for a
misspelt field that is passed over looks as if it were done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rest_framework import mixins, serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

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


SENDING = ("POST", "PATCH")


def reject_unknown_fields(request: Request, view: Any) -> None:
    """Raises ValidationError for a field that the schema does not name for this operation, at any depth.

    Fields that are only given, not taken, may come back: a row is changed by sending it as it was told.
    """
    if request.method not in SENDING or not view.action or not request.content_type:
        return
    serializer = _request_serializer(view, request.content_type)
    errors = dict(_find_unknown(serializer, request.data))
    if errors:
        raise ValidationError({name: [message] for name, message in errors.items()})


def _request_serializer(view: Any, kind: str) -> Any:
    """The serializer of the operation's body, as the schema has it; None: it takes none."""
    own = getattr(getattr(view, view.action), "kwargs", {}).get("schema")
    schema = own() if own else view.schema
    schema.view, schema.method, schema.path = view, view.request.method, view.request.path
    serializer = schema.get_request_serializer()
    if isinstance(serializer, Mapping):
        serializer = serializer.get(kind.partition(";")[0].strip())
    return serializer() if isinstance(serializer, type) else serializer


def _find_unknown(serializer: Any, data: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(where, what is said), of what is sent as an object. What is none is for the serializer to refuse."""
    if isinstance(serializer, serializers.ListSerializer):
        for number, item in enumerate(data if isinstance(data, list) else ()):
            yield from _find_unknown(serializer.child, item, f"{prefix}{number}.")
        return
    if not isinstance(data, Mapping) or not (serializer is None or _is_object(serializer)):
        return
    fields = serializer.fields if serializer is not None else {}
    writable = [name for name, field in fields.items() if not field.read_only]
    for name, value in data.items():
        if name in fields:
            yield from _find_unknown(fields[name], value, f"{prefix}{name}.")
        else:
            advice = f"there are {', '.join(writable)}" if writable else "it takes none"
            yield f"{prefix}{name}"[:200], f"No such field; {advice}."


def _is_object(serializer: Any) -> bool:
    return isinstance(serializer, serializers.Serializer)
