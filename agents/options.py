# SPDX-License-Identifier: Apache-2.0
"""Driver options: a frozen dataclass is the form, the JSON schema and the check of what a person typed.

A driver declares each field as `option(default, help, …)`. Anything that depends on several fields is checked in the
driver's own `__post_init__`, which raises OptionsError.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack

import cattrs

from agents.contracts import OptionsError

# Programs cut what is larger to something else without a word; outstanding I/Os are stored in 31 bits.
MOST, MOST_OUTSTANDING = 2**64 - 1, 2**31 - 1

_converter = cattrs.Converter(forbid_extra_keys=True)


T = TypeVar("T")


class Details(TypedDict, total=False):
    """Details of an option for forms and checks, beside its default and its help text."""

    unit: str
    minimum: float
    choices: Sequence[object]
    # it makes the outstanding I/Os, the x axis of charts
    depth: bool
    # what a layer moves at once, to be held against the stripes below
    grain: bool
    # a text of several lines
    multiline: bool


def option(default: T, help: str, **details: Unpack[Details]) -> T:
    """A field of a driver's Options."""
    spec: T = dataclasses.field(default=default, metadata={"help": help, **details})
    return spec


def _strict(kind: type) -> Any:
    def structure(value: Any, _: type) -> Any:
        # Python's bool is an int, and we do not accept "8" as a number. A wrong type is an error, never converted.
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ValueError(f"expected {kind.__name__}, got {value!r}")
        return value

    return structure


for _kind in (int, float, bool, str):
    _converter.register_structure_hook(_kind, _strict(_kind))


def build_options(options: type[Any], data: Mapping[str, Any]) -> Any:
    """Build `options(**data)` and check it. Raises OptionsError with the option and its allowed values."""
    try:
        values = dict(data)
        _check_names(values, options)
        built = _converter.structure(values, options)
    except OptionsError:
        raise
    except Exception as error:
        nested = next((e for e in _leaves(error) if isinstance(e, OptionsError)), None)
        if nested:
            raise nested from None
        raise OptionsError("; ".join(cattrs.transform_error(error, path="options"))) from None
    for spec in dataclasses.fields(options):
        _check_option(spec, getattr(built, spec.name))
    return built


def accepted_values(options: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `data` that the driver has; where it refuses them together, those that it accepts each by itself, and of
    a list the items. Another's output may hold what we would not run.
    """
    names = {spec.name for spec in dataclasses.fields(options)}
    known = {name: value for name, value in data.items() if name in names}
    if _accepts(options, known):
        return known
    accepted: dict[str, Any] = {}
    for name, value in known.items():
        if isinstance(value, list | tuple):
            value = [item for item in value if _accepts(options, {name: [item]})]
        if _accepts(options, {name: value}):
            accepted[name] = value
    return accepted


def _accepts(options: type[Any], data: Mapping[str, Any]) -> bool:
    try:
        build_options(options, data)
    except OptionsError:
        return False
    return True


def _check_names(values: Mapping[str, Any], options: type[Any]) -> None:
    names = [spec.name for spec in dataclasses.fields(options)]
    if unknown := [repr(name) for name in values if name not in names]:
        raise OptionsError(
            f"there is no option {' and no '.join(unknown)}; known: {', '.join(names) or 'none'}"
        )


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in _leaves(part)]
    return [error]


def _check_option(spec: dataclasses.Field[Any], value: Any) -> None:
    choices, minimum = spec.metadata.get("choices"), spec.metadata.get("minimum")
    if choices is not None and value not in choices:
        raise OptionsError(f"{spec.name}: {value!r} is not one of {', '.join(map(str, choices))}")
    if minimum is not None and value < minimum:
        raise OptionsError(f"{spec.name}: {value!r} is below {minimum}")
    most = MOST_OUTSTANDING if spec.metadata.get("depth") else MOST
    if isinstance(value, int) and abs(value) > most:
        raise OptionsError(f"{spec.name}: {str(value)[:40]} is above {most}")


def dump(options: Any) -> dict[str, Any]:
    """The options as JSON data; `build(type(options), dump(options)) == options`."""
    data: dict[str, Any] = _converter.unstructure(options)
    return data


def schema(options: type[Any]) -> dict[str, Any]:
    """JSON schema of an Options dataclass (types: int, float, bool, str, and tuples or lists of them)."""
    properties = {spec.name: _property(spec) for spec in dataclasses.fields(options)}
    required = [s.name for s in dataclasses.fields(options) if _default(s) is dataclasses.MISSING]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


_TYPES = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}


def _property(spec: dataclasses.Field[Any]) -> dict[str, Any]:
    declared = spec.type if isinstance(spec.type, str) else spec.type.__name__
    json_type = _TYPES.get(declared.split(" |")[0], "array" if "tuple" in declared else "string")
    schema: dict[str, Any] = {"type": json_type}
    for key, name in (("help", "description"), ("minimum", "minimum"), ("unit", "x-unit")):
        if key in spec.metadata:
            schema[name] = spec.metadata[key]
    if "choices" in spec.metadata:
        schema["enum"] = list(spec.metadata["choices"])
    if (default := _default(spec)) is not dataclasses.MISSING:
        schema["default"] = default
    return schema


def _default(spec: dataclasses.Field[Any]) -> Any:
    if spec.default_factory is not dataclasses.MISSING:
        return spec.default_factory()
    return spec.default
