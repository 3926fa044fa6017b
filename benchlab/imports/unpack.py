# SPDX-License-Identifier: Apache-2.0
"""Files out of what was uploaded: archives unpacked in memory, one file after the other.

No member is written to disk, so its path, owner or link target cannot matter: names are only shown. No size in
any header is believed; everything is counted while it is read, and streams give no more than is asked for.
"""

from __future__ import annotations

import bz2
import lzma
import re
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO, RawIOBase
from typing import IO, Any, Protocol, cast

CHUNK = 1 << 20
# packed bytes at a time
STEP = 1 << 16
# of xz: a dictionary may claim 4 GiB
MEMORY = 128 << 20

MAGIC = {
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"\x1f\x8b": "gz",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!\x1a\x07": "rar",
    b"\x28\xb5\x2f\xfd": "zstd",
}
# an artifact adds its lines and must stay below 200
MAX_NAME_LENGTH = 140


@dataclass(frozen=True, slots=True)
class Limits:
    """The one place for what an upload may become. Bytes, unless named otherwise."""

    file: int = 100_000_000
    total: int = 512_000_000
    # files, of all that is uploaded together
    members: int = 2000
    # unpacked over packed, beyond `trifle`: logs of one metric reach 100
    ratio: int = 250
    trifle: int = 16_000_000


@dataclass(frozen=True, slots=True)
class File:
    """`raw` is empty where there is `trouble`."""

    name: str
    raw: bytes = b""
    trouble: str = ""


class _LimitExceeded(Exception):
    """The text says which limit."""


SUFFIX = re.compile(r"\.(gz|bz2|xz|tgz|tbz2?|txz)$", re.IGNORECASE)
BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
)


class Unpacker:
    """Counts over all that is uploaded together."""

    def __init__(
        self, limits: Limits | None = None, total: int = 0, names: Iterable[str] = ()
    ) -> None:
        """`total` bytes and files of these names came out of other uploads before."""
        self.limits = limits or Limits()
        self.total = total
        # `total` when the present upload began
        self.before = 0
        self.names = set(names)
        self.files = len(self.names)
        # why nothing more is taken
        self.full = ""

    def unpack(self, name: str, stream: IO[bytes], size: int) -> Iterator[File]:
        """Files in one upload of `size` bytes: itself, or its members. Raises nothing."""
        if self.full:
            yield self._rejected_file(name, self.full)
            return
        self.before = self.total
        try:
            yield from self._unpack(name, stream, size)
        except _LimitExceeded as error:
            yield self._rejected_file(name, str(error))
        except BROKEN as error:
            yield self._rejected_file(name, _broken_message(error))

    def _unpack(self, name: str, stream: IO[bytes], size: int) -> Iterator[File]:
        head = _read_head(stream)
        kind = archive_kind(head)
        if kind == "zip":
            yield from self._zip(name, stream, size)
        elif kind == "tar":
            yield from self._tar(name, stream, size)
        elif kind in ("gz", "bz2", "xz"):
            yield from self._compressed(name, Unzipped(kind, stream), size)
        elif kind:
            yield self._rejected_file(
                name, f"a {kind} archive cannot be unpacked here: use zip or tar"
            )
        else:
            yield self._file(name, stream, 0)

    def _compressed(self, name: str, stream: Unzipped, packed: int) -> Iterator[File]:
        """One file, or a tar."""
        if archive_kind(stream.peek(512)) == "tar":
            self._verify_stream(stream, packed)
            stream.rewind()
            yield from self._tar(name, cast(IO[bytes], stream), packed)
            return
        yield self._file(SUFFIX.sub("", name), cast(IO[bytes], stream), packed, nested=True)

    def _verify_stream(self, stream: Unzipped, packed: int) -> None:
        """Read the stream to its checksum at the end: a tar ends earlier, and damaged figures must not pass.

        Raises what `unpack` catches.
        """
        size = 0
        while part := stream.read(CHUNK):
            size += len(part)
            if size > max(self.limits.trifle, packed * self.limits.ratio):
                raise _LimitExceeded(self._bomb_message())
            if size > self._remaining_bytes():
                raise _LimitExceeded("it is larger than what may still be unpacked")

    def _remaining_bytes(self) -> int:
        """Bytes of a tar with all that is not in its files."""
        return self.limits.total - self.total + self.limits.members * 1024 + CHUNK

    def _bomb_message(self) -> str:
        return f"it unpacks to more than {self.limits.ratio} times its size, as a zip bomb does"

    def _zip(self, name: str, stream: IO[bytes], packed: int) -> Iterator[File]:
        _check_member_count(stream, self.limits.members)
        with zipfile.ZipFile(stream) as archive:
            for info in archive.infolist():
                if self.full:
                    return
                if info.is_dir():
                    continue
                inside = f"{name}/{clean_name(info.filename)}"
                if stat.S_ISLNK(info.external_attr >> 16):
                    yield self._rejected_file(inside, "it is a link, which holds no text")
                elif info.flag_bits & 1:
                    yield self._rejected_file(inside, "it is encrypted: unpack it first")
                else:
                    yield self._member(inside, lambda info=info: archive.open(info), packed)

    def _tar(self, name: str, stream: IO[bytes], packed: int) -> Iterator[File]:
        # Read as a stream, so that a damaged end loses only what is behind it.
        with tarfile.open(
            fileobj=_LimitedStream(stream, self._remaining_bytes()), mode="r|"
        ) as archive:
            for member in archive:
                if self.full:
                    return
                if member.isdir():
                    continue
                inside = f"{name}/{clean_name(member.name)}"
                if not member.isreg() or member.issparse():
                    yield self._rejected_file(
                        inside, "it is not a plain file, but a link or similar"
                    )
                else:
                    yield self._member(inside, lambda m=member: archive.extractfile(m), packed)

    def _member(self, name: str, opened: Any, packed: int) -> File:
        """Read a member; an unreadable one does not stop the others."""
        try:
            with opened() as stream:
                return self._file(name, stream, packed, nested=True)
        except tarfile.TarError:
            # its stream is at an unknown place now
            raise
        except BROKEN as error:
            return self._rejected_file(name, _broken_message(error))

    def _file(self, name: str, stream: IO[bytes], packed: int, nested: bool = False) -> File:
        """Its bytes. Raises _TooMuch for all that follows, too, where the whole is too large."""
        whole = BytesIO()
        size = 0
        while part := stream.read(CHUNK):
            if nested and not size and (kind := archive_kind(part)):
                return self._rejected_file(
                    name, f"it is an archive ({kind}) in an archive: unpack it first"
                )
            whole.write(part)
            size += len(part)
            self.total += len(part)
            if message := self._limit_error(size, packed):
                return self._rejected_file(name, message)
        if self._count_file():
            return File(self._unique(name), whole.getvalue())
        return self._rejected_file(name, self.full)

    def _limit_error(self, size: int, packed: int) -> str:
        limits = self.limits
        if self.total > limits.total:
            self.full = f"all files together are larger than {limits.total / 1e6:,.0f} MB unpacked"
            raise _LimitExceeded(self.full)
        if packed and self.total - self.before > max(limits.trifle, packed * limits.ratio):
            self.full = self._bomb_message()
            raise _LimitExceeded(self.full)
        if size > limits.file:
            return f"it is larger than {limits.file / 1e6:,.0f} MB"
        return ""

    def _count_file(self) -> bool:
        self.files += 1
        if self.files > self.limits.members:
            self.full = f"more than {self.limits.members} files"
        return not self.full

    def _rejected_file(self, name: str, why: str) -> File:
        self.files += 1
        if self.files > self.limits.members and why != self.full:
            self.full = f"more than {self.limits.members} files"
            raise _LimitExceeded(self.full)
        return File(self._unique(name), trouble=why)

    def _unique(self, name: str) -> str:
        """The name as it is shown, unlike every other."""
        cleaned = tried = clean_name(name)
        stem, dot, suffix = cleaned.rpartition(".")
        number = 1
        while tried in self.names:
            number += 1
            tried = f"{stem} ({number}).{suffix}" if dot and stem else f"{cleaned} ({number})"
        self.names.add(tried)
        return tried


def clean_name(name: str) -> str:
    """A name fit to be shown: no way out of a directory, no control or direction characters, not too long."""
    plain = "".join(c for c in name if unicodedata.category(c)[0] != "C")
    parts = [part.strip() for part in plain.replace("\\", "/").split("/")]
    cleaned = "/".join(part for part in parts if part not in ("", ".", ".."))
    if len(cleaned) > MAX_NAME_LENGTH:
        cleaned = "…" + cleaned[1 - MAX_NAME_LENGTH :]
    return cleaned or "unnamed"


def _read_head(stream: IO[bytes]) -> bytes:
    stream.seek(0)
    head = stream.read(512)
    stream.seek(0)
    return head


def _check_member_count(stream: IO[bytes], most: int) -> None:
    """A list of millions would be memory before any limit is looked at. Raises _TooMuch."""
    members, tail = 0, b""
    while part := stream.read(CHUNK):
        members += (tail + part).count(b"PK\x01\x02")
        tail = part[-3:]
    stream.seek(0)
    if members > most:
        raise _LimitExceeded(f"more than {most} files in one archive")


def _broken_message(error: Exception) -> str:
    message = str(error) or type(error).__name__
    return f"the archive is damaged or of a kind that cannot be read: {message[:200]}"


class _LimitedStream(RawIOBase):
    """A tar's own stream: also what lies between its files counts, and what its headers make it read."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self.stream, self.left = stream, most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        part = self.stream.read(min(size, self.left) if size >= 0 else self.left)
        self.left -= len(part)
        if self.left <= 0:
            raise _LimitExceeded("its headers claim more than it may hold")
        return part


def archive_kind(head: bytes) -> str:
    """ "zip", "tar", "gz", … by the first bytes; "" for anything else."""
    for magic, kind in MAGIC.items():
        if head.startswith(magic):
            return kind
    return "tar" if head[257:262] == b"ustar" else ""


class _Inflater(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class Unzipped(RawIOBase):
    """gz, bz2 or xz as a stream: never more at once than is asked for, and little memory for a dictionary."""

    def __init__(self, kind: str, stream: IO[bytes]) -> None:
        self.kind, self.stream = kind, stream
        self._reset()

    def _reset(self) -> None:
        self.inflater = _inflater(self.kind)
        # packed
        self.waiting = b""
        # unpacked
        self.ready = b""

    def rewind(self) -> None:
        self.stream.seek(0)
        self._reset()

    def readable(self) -> bool:
        return True

    def peek(self, size: int) -> bytes:
        while len(self.ready) < size and (part := self._inflate_chunk(size)):
            self.ready += part
        return self.ready[:size]

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; fewer only at the end. Raises EOFError when the end is missing."""
        size_left = size if size >= 0 else CHUNK
        parts, have = [self.ready[:size_left]], len(self.ready[:size_left])
        self.ready = self.ready[size_left:]
        while have < size_left and (part := self._inflate_chunk(size_left - have)):
            parts.append(part)
            have += len(part)
        return b"".join(parts)

    def _inflate_chunk(self, size: int) -> bytes:
        while True:
            if self.inflater.eof:
                rest = (self.inflater.unused_data or self.stream.read(STEP)).lstrip(b"\0")
                # padding, or the end
                if archive_kind(rest[:512]) != self.kind:
                    return b""
                self.inflater, self.waiting = _inflater(self.kind), rest
            hungry = getattr(self.inflater, "needs_input", True)
            fed = self.waiting or (self.stream.read(STEP) if hungry else b"")
            part = self.inflater.decompress(fed, size)
            self.waiting = getattr(self.inflater, "unconsumed_tail", b"")
            if part:
                return part
            if hungry and not fed and not self.inflater.eof:
                raise EOFError("it ends in the middle")


def _inflater(kind: str) -> _Inflater:
    if kind == "gz":
        return _Gzip()
    if kind == "bz2":
        return bz2.BZ2Decompressor()
    return cast(_Inflater, lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MEMORY))


class _Gzip:
    """zlib's decompressor with the manners of the other two."""

    def __init__(self) -> None:
        self.inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self.inner.eof

    @property
    def unused_data(self) -> bytes:
        return self.inner.unused_data

    @property
    def unconsumed_tail(self) -> bytes:
        return self.inner.unconsumed_tail

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self.inner.decompress(data, max_length)
