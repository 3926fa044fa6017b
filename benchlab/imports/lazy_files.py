"""A draft's files and the lines of its results, read when they are needed: never more than one file in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from agents.texts.found import Found, Places
from benchlab.imports import blobs, drafts
from benchlab.imports.models import DraftFile
from benchlab.imports.services import Piece


class Files(Mapping[str, bytes]):
    """Name -> content as it came, of files by their ids."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = ids

    def __getitem__(self, name: str) -> bytes:
        return blobs.get(self.ids[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)


def pieces(found: Sequence[tuple[DraftFile, Found, str]]) -> dict[tuple[int, int], Piece]:
    """(file id, first line) -> its lines, to be read late; by the name that tells what they do not."""
    texts = _Texts()
    return {
        (file.pk, one.first): Piece(one, file.name, partial(texts.between, file.pk, one), told=told)
        for file, one, told in found
    }


class _Texts:
    """The text of the file that was asked for last: results come in the order of their files."""

    def __init__(self) -> None:
        self.pk = 0
        self.text = Places("")

    def between(self, pk: int, found: Found) -> str:
        if pk != self.pk:
            self.text = Places("")  # the one goes before the other comes
            self.text = Places(drafts.text_of(DraftFile.objects.only("name").get(pk=pk)))
            self.pk = pk
        return found.alone(self.text)
