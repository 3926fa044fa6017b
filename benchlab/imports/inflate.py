# SPDX-License-Identifier: Apache-2.0
"""Bounded streams of compressed data, which give no more than is read; and archives by their first bytes."""

from __future__ import annotations

import bz2
import lzma
import zlib
from io import RawIOBase
from typing import IO, Protocol, cast

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
