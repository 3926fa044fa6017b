# SPDX-License-Identifier: Apache-2.0
"""Large files that a job left on its host, read piece by piece with constant memory."""

from __future__ import annotations

import zlib

from agents.contracts import AgentError, Reason, Shell
from agents.jobs import spool


def read_piece(shell: Shell, where: spool.Spool, file: spool.Waiting, number: int) -> bytes:
    """The bytes of a large file from `number` times spool.PIECE on. Raises AgentError when they do not arrive whole."""
    ran = spool.call(shell, where, "piece", file.path, str(number), timeout_s=600.0)
    head, _, raw = ran.stdout.partition(b"\n\n")
    piece_bytes = min(spool.PIECE, file.size - number * spool.PIECE)
    try:
        if head == b"packed=yes":
            raw = zlib.decompressobj(wbits=31).decompress(raw, spool.PIECE + 1)
    except zlib.error as error:
        raise AgentError(
            f"a chunk of {file.name} arrived incomplete: {error}", Reason.COMMAND_FAILED
        ) from None
    if len(raw) != piece_bytes:
        raise AgentError(
            f"a chunk of {file.name} arrived incomplete: {len(raw)} of {piece_bytes} bytes",
            Reason.COMMAND_FAILED,
        )
    return raw
