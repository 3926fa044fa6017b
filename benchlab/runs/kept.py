"""What tools read of an attempt: its artifacts, one at a time, for together they may be larger than the memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchlab.runs.models import Attempt


class Outputs(Mapping[str, bytes]):
    """The artifacts of an attempt by name, each read when it is asked for, and not kept."""

    def __init__(self, attempt: Attempt) -> None:
        self._rows = attempt.artifacts.all()
        self._names = list(self._rows.order_by("name").values_list("name", flat=True))

    def __getitem__(self, name: str) -> bytes:
        if name not in self._names:
            raise KeyError(name)
        return self._rows.get(name=name).read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
