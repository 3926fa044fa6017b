# SPDX-License-Identifier: Apache-2.0
"""A stack's plan as JSON data, as the database keeps it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import cattrs

from agents.contracts import Argument, PlanError, Secret
from agents.plans.stack import StackPlan

_converter = cattrs.Converter(forbid_extra_keys=True)


def _dump_word(word: Argument) -> Any:
    if isinstance(word, Secret):
        raise PlanError("a plan with a secret in a command is not stored")
    return word


_converter.register_unstructure_hook(Argument, _dump_word)
_converter.register_structure_hook(Argument, lambda word, _: str(word))


def to_json(stack: StackPlan) -> dict[str, Any]:
    """The plan as JSON data: `from_json(to_json(stack)) == stack`. Raises PlanError if it holds a secret."""
    data: dict[str, Any] = json.loads(json.dumps(_converter.unstructure(stack)))
    return data


def from_json(data: Mapping[str, Any]) -> StackPlan:
    """Build a plan from JSON. Raises PlanError for data that is no plan."""
    try:
        return _converter.structure(data, StackPlan)
    except Exception as error:
        message = "; ".join(cattrs.transform_error(error, path="plan"))
        raise PlanError(f"the stored plan cannot be read: {message}") from None
