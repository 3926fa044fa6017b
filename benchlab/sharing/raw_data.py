# SPDX-License-Identifier: Apache-2.0
"""The raw output behind a report, as a ZIP: in the report's file as far as that has room, and as an archive by itself.

Byte for byte as the tools wrote it and as each file's own page gives it: whose bytes somebody may have is asked where
that page asks (`OwnedQuerySet.visible_to`), and nowhere else. It holds no secret: what a command is given as one never
comes back in its output (agents/contracts.py: Secret). A ZIP is made while it is taken, of one file's memory.

Its paths stay in their folder, on every system: what a host or an upload calls a file may be anything, such as
`../../etc/passwd`, `C:\\x`, or two names that differ in case alone.
"""

from __future__ import annotations

import base64
import io
import re
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Count, Q, QuerySet, Sum

from benchlab.runs.models import Artifact
from benchlab.runs.outputs import RawRemoved
from benchlab.team.models import OwnedQuerySet
from benchlab.web.units import format_size as in_words

# bytes that an archive holds, before they are compressed
MOST = 2 << 30
# of an archive: their names and sums are in memory until its end
MOST_FILES = 20_000
# Bytes of the ZIP in a report's file: browsers open no more of a data: address at ease.
IN_FILE = 20 << 20
# bytes that are compressed for it
READ_FOR_FILE = 100 << 20
# bytes that are compressed at once
PIECE = 256 << 10
# bytes of a ZIP that a file's heads and its line of sums take beside its name
OF_EACH = 300
# omitted files that are named
LISTED = 60
# bytes of the ZIP that their names take at most
OF_LEFT = LISTED << 10
# as sha256sum -c reads it
SUMS = "SHA256SUMS"
LEFT_OUT = "LEFT_OUT.txt"
# that a ZIP can tell
EARLIEST = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class RawOutput:
    """Available raw data: `files` of `size` bytes in total. `removed` counts those that a team's rule has deleted."""

    files: int
    size: int
    removed: int

    @property
    def size_error(self) -> str:
        """Reason why no archive is made of it, as a sentence that URLs follow; empty if one is made."""
        if self.size <= MOST and self.files <= MOST_FILES:
            return ""
        return (
            f"The raw output has {in_words(self.size)} in {self.files:,} files: an archive holds up to"
            f" {in_words(MOST)} in {MOST_FILES:,}. The API lists all of it, each file with its address:"
        )

    @property
    def bounds(self) -> str:
        """Limits of the raw output in a report's file, in words."""
        return f"up to {in_words(IN_FILE)} compressed, made of up to {in_words(READ_FOR_FILE)}"


@dataclass(slots=True)
class EmbedBudget:
    """Room in a report's file: takes whole files in the order of runs, each one that certainly still fits."""

    files: int = 0
    # bytes
    read: int = 0
    # bytes of the ZIP
    packed: int = 0
    # bytes of the ZIP that are no file's content, at most
    heads: int = 0
    omitted: int = 0
    omitted_bytes: int = 0
    # of the first omitted files
    names: list[str] = field(default_factory=list)

    def admit(self, row: Artifact, name: str, written: int) -> bool:
        """Admit a file if it fits. `written` is the ZIP's bytes so far. Incompressible data grows by a thousandth."""
        heads = self.heads + 3 * len(name.encode()) + OF_EACH
        most = written + row.size + row.size // 1000 + heads + OF_LEFT
        if most <= IN_FILE and self.read + row.size <= READ_FOR_FILE:
            self.files += 1
            self.heads = heads
            self.read += row.size
            return True
        self.omitted += 1
        self.omitted_bytes += row.size
        if len(self.names) < LISTED:
            self.names.append(f"{name} ({in_words(row.size)})")
        return False

    @property
    def unnamed_count(self) -> int:
        """The number of omitted files that `names` does not list."""
        return self.omitted - len(self.names)


def readable_artifacts(
    user: AbstractBaseUser | AnonymousUser, rows: OwnedQuerySet[Artifact]
) -> QuerySet[Artifact]:
    """Return those of `rows` that this person may read and that are not deleted, in the order of runs."""
    readable = rows.visible_to(user).filter(attempt__raw_removed_at=None).select_related("attempt")
    return readable.order_by("attempt__run_id", "attempt_id", "name")


def raw_output_of(
    user: AbstractBaseUser | AnonymousUser, rows: OwnedQuerySet[Artifact]
) -> RawOutput:
    """Sum up the raw output that this person may read. One query, which reads sizes only."""
    present = Q(attempt__raw_removed_at=None)
    totals: dict[str, Any] = (
        rows.visible_to(user)
        .order_by()
        .aggregate(
            files=Count("pk", filter=present),
            size=Sum("size", filter=present, default=0),
            removed=Count("pk", filter=~present),
        )
    )
    return RawOutput(**totals)


def embed_archive(rows: QuerySet[Artifact], room: EmbedBudget) -> Iterator[bytes]:
    """Yield a ZIP of what there is room for, as base64, in parts. Afterwards `room` knows what that was."""
    rest = b""
    for part in stream_archive(rows, room):
        room.packed += len(part)
        rest += part
        # bytes that end with a character
        whole = len(rest) // 3 * 3
        yield base64.b64encode(rest[:whole])
        rest = rest[whole:]
    yield base64.b64encode(rest)


def stream_archive(rows: QuerySet[Artifact], room: EmbedBudget | None = None) -> Iterator[bytes]:
    """A ZIP of them, or of what there is `room` for, bit by bit: run-7/attempt-1/stdout, and so on, and their sums.

    Raises RawRemoved: a rule took one away meanwhile. What was made until then has no end, and no program takes it for
    a whole one.
    """
    tail, names = _Tail(), ArchivePaths()
    sums: list[str] = []
    with zipfile.ZipFile(tail, "w", zipfile.ZIP_DEFLATED) as zip_out:
        # One file's bytes in memory at a time, and none of what is left out.
        for row in rows.defer("content").iterator(chunk_size=500):
            folder = f"run-{row.attempt.run_id}/attempt-{row.attempt.number}"
            name = names.unique_path(folder, row.name)
            if room is None or room.admit(row, name, tail.written):
                sums.append(f"{row.sha256}  {name}\n")
                yield from _add_file(zip_out, tail, row, name)
        zip_out.writestr(SUMS, "".join(sums))
        if room is not None and room.omitted:
            zip_out.writestr(LEFT_OUT, _omitted_names(room))
    yield tail.take()


def _add_file(zip_out: zipfile.ZipFile, tail: _Tail, row: Artifact, name: str) -> Iterator[bytes]:
    info = zipfile.ZipInfo(name, max(row.created_at.timetuple()[:6], EARLIEST))
    info.compress_type = zipfile.ZIP_DEFLATED
    size = 0
    with zip_out.open(info, "w", force_zip64=True) as out:
        for piece in row.pieces():
            size += len(piece)
            for at in range(0, len(piece), PIECE):
                out.write(piece[at : at + PIECE])
                yield tail.take()
    if size != row.size:
        raise RawRemoved(f"{name} was removed while it was packed.")


def _omitted_names(room: EmbedBudget) -> str:
    more = f"and {room.unnamed_count} more\n" if room.unnamed_count else ""
    return "".join(f"{name}\n" for name in room.names) + more


class _Tail(io.RawIOBase):
    """Sink that returns what was written since the last call. `written` counts all bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.written = 0

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        self.written += len(part)
        return len(part)

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data


# which Windows takes in no name
ODD = set('<>:"|?*')
# of Windows
DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
# bytes of a part; file systems take 255
LONGEST = 200


class ArchivePaths:
    """Unique paths. Callers finish one folder before the next: only the last folder's paths are remembered."""

    def __init__(self) -> None:
        self._folder = ""
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def unique_path(self, folder: str, name: str) -> str:
        """Return a path below `folder`, whose name is ours, for a file named `name`."""
        if folder != self._folder:
            self._folder, self._files, self._folders = folder, set(), set()
        path_wanted = safe_path(name)
        path, number = path_wanted, 1
        while self._is_used(path):
            number += 1
            path = f"{number}-{path_wanted}"
        key = _compare_key(path)
        self._files.add(key)
        self._folders.update(_above(key))
        return f"{folder}/{path}"

    def _is_used(self, path: str) -> bool:
        """True if the path is used, or if one of its folders is a file."""
        key = _compare_key(path)
        return key in self._files | self._folders or not self._files.isdisjoint(_above(key))


def safe_path(name: str) -> str:
    """A relative path without ".." and without what no file system takes; "output" where nothing is left."""
    parts = (_safe_part(part) for part in name.replace("\\", "/").split("/"))
    return "/".join(part for part in parts if part) or "output"


def _safe_part(part: str) -> str:
    safe = "".join(
        " " if character.isspace() else "_" if _is_odd(character) else character
        for character in part
    )
    safe = safe.encode()[:LONGEST].decode(errors="ignore").strip().rstrip(". ")
    return f"_{safe}" if DEVICES.fullmatch(safe) else safe


def _is_odd(character: str) -> bool:
    """True for a character that no path should have, including invisible ones and those that reverse the text."""
    return character in ODD or unicodedata.category(character)[0] == "C"


def _compare_key(path: str) -> str:
    """Return a key that is equal for paths that a file system may take for equal."""
    return unicodedata.normalize("NFKC", path.casefold()).casefold()


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
