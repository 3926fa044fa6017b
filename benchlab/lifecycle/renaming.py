# SPDX-License-Identifier: Apache-2.0
"""Rename rows. What was made under the old name (links for guests, saved comparisons, the audit log) keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError

from benchlab.audit.subjects import describe_row, former_name
from benchlab.lifecycle.managed_kinds import Refused, managed_kind_of

# Fields that, with the name, decide whether a name is taken.
UNIQUE_FIELDS = ("team", "deleted_at")


def rename(row: Any, before: Mapping[str, str], new_values: Mapping[str, str]) -> str:
    """Rename a row. Return what was done, for the audit log.

    `before`: what the person saw; `new_values`: what they want instead. Raises Refused when it is not as they saw it,
    and ValidationError for a name that cannot be.
    """
    noun = managed_kind_of(row)
    old = {name: getattr(row, name) for name in noun.editable_fields}
    for name, value in new_values.items():
        setattr(row, name, value)
    try:
        row.full_clean(
            exclude=[
                field.name
                for field in row._meta.fields
                if field.name not in (*UNIQUE_FIELDS, *new_values)
            ]
        )
        unchanged = noun.model.objects.filter(
            pk=row.pk, **{name: before[name] for name in new_values}
        )
        updated = unchanged.update(**new_values)
    except ValidationError as error:
        _restore_values(row, old)
        raise ValidationError(_name_errors(error)) from None
    if not updated:
        row.refresh_from_db(fields=list(noun.editable_fields))
        raise Refused(
            f"Somebody was faster: it is called “{row.name}” now. Nothing was changed; what you typed is still here."
        )
    return f"{describe_row(row)}{_describe_change(old, new_values)}"


def _restore_values(row: Any, old: Mapping[str, str]) -> None:
    """Restore the values: a page goes on to show the row as it is."""
    for name, value in old.items():
        setattr(row, name, value)


def _name_errors(error: ValidationError) -> dict[str, list[str]]:
    """Errors of a rename. A taken name is reported for the name, not for the row."""
    messages = error.message_dict
    row_errors = messages.pop("__all__", [])
    return messages | {"name": messages.get("name", []) + row_errors} if row_errors else messages


def _describe_change(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    text = former_name(old["name"], new.get("name", old["name"]))
    others = [name for name in new if name != "name" and new[name] != old[name]]
    return text + "".join(f"; another {name}" for name in others)
