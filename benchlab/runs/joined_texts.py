"""Texts of which several are of one result from elsewhere, such as the log of each job: read together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents.contracts import ParseError, Series
from agents.drivers import registry
from benchlab.runs import storable


def read(
    files: Mapping[str, bytes], readers: Sequence[Sequence[Any]]
) -> tuple[list[tuple[str, Series]], list[str]]:
    """(reader and series, what could not be read); `readers` as in the meta of an attempt: the first is the result."""
    found: dict[str, dict[str, str]] = {}  # reader -> file's name -> artifact
    for number, (artifact, kind, name, *_) in enumerate(readers):
        if registry.joining(kind) is not None:
            found.setdefault(kind, {})[f"{number}/{name}"] = artifact
    series: list[tuple[str, Series]] = []
    errors: list[str] = []
    for kind, artifacts in found.items():
        reader, result = registry.joining(kind), readers[0][0]
        assert reader is not None
        texts = {name: files[artifact].decode() for name, artifact in artifacts.items()}
        beside = b"" if result in artifacts.values() else files[result]
        try:
            series += storable.series((kind, one) for one in reader.joined(texts, beside))
        except ParseError as error:
            errors.append(f"{', '.join(list(artifacts.values())[:3])}: {error}")
    return series, errors
