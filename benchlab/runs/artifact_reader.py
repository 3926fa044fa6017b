# SPDX-License-Identifier: Apache-2.0
"""Artifacts of an attempt as tools read them: one at a time, for together they may be larger than the memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from django.db.models import Case, When

from agents.contracts import ParseError
from benchlab.runs.models import Attempt

# bytes of a file that is read with the others of its kind, by one query
SMALL_BYTES = 256 << 10
# bytes of one file; more would fill the memory several times over
FILE_MAX_BYTES = 256 << 20
# bytes of the files together, where all of them are read
TOTAL_MAX_BYTES = 2 << 30


class Outputs(Mapping[str, bytes]):
    """Artifacts of an attempt by name: small ones are read at once, others on request and not cached.

    Raises ParseError for one that is too large to be read; it stays stored all the same.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._rows = attempt.artifacts.all()
        content = Case(When(size__lte=SMALL_BYTES, then="content"), default=None)
        rows = self._rows.order_by("name").annotate(small=content)
        self._sizes: dict[str, int] = {}
        self._small: dict[str, bytes] = {}
        for name, size, small in rows.values_list("name", "size", "small"):
            self._sizes[name] = size
            # else it lies in pieces
            if small is not None and len(small) == size:
                self._small[name] = bytes(small)

    def __getitem__(self, name: str) -> bytes:
        _check_size(name, self._sizes[name], FILE_MAX_BYTES)
        if name in self._small:
            return self._small[name]
        return self._rows.get(name=name).read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def check_all(self, but: str) -> None:
        """Check the total size. Raises ParseError when the artifacts are too large to be read together, `but` one."""
        total = sum(size for name, size in self._sizes.items() if name != but)
        _check_size("what the tool wrote", total, TOTAL_MAX_BYTES)


def _check_size(what: str, size: int, most: int) -> None:
    if size > most:
        raise ParseError(
            f"{what} has {size / (1 << 20):,.0f} MiB, of which no more than {most >> 20:,} are read; "
            "it is kept whole"
        )
