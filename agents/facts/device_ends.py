# SPDX-License-Identifier: Apache-2.0
"""Both ends of a Linux host's devices, and traces of membership in them that its libblkid may not know. Pure.

`wipefs` names what its version of libblkid knows: 2.23 knows neither bcache nor Ceph, and no version knows Windows'
dynamic disks. So the first 12 KiB and the last 32 KiB of each device are read too, and agents/facts/magic.py looks at
them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from agents.facts import magic
from agents.facts.model import BlockDevice, Signature
from agents.facts.sections import Section, decode_text

# bytes of each device, as hostside/facts.sh asks for; 32 entries of a GPT with sectors of 4 KiB
HEAD = 12288
# bytes of each device's end: the copy of a GPT in sectors of 4 KiB takes 20 KiB
TAIL = 32768
HEADING = re.compile(rb"\n?==> (/dev/[^\n]{1,255}) <==\n")


def parse_device_ends(
    section: Section, devices: Iterable[BlockDevice], most: int = HEAD
) -> dict[str, bytes]:
    """Kernel name -> the first or last `most` bytes of the device, of each of which that was read whole."""
    nodes = {"/dev/" + d.name.replace("!", "/"): d for d in devices}
    printed = _decompress(section.stdout, len(nodes) * (most + 512))
    ends_by_name: dict[str, bytes] = {}
    heading = HEADING.match(printed)
    while heading is not None:
        device = nodes.get(decode_text(heading[1]))
        length = min(most, device.size) if device else 0
        data = printed[heading.end() :][:length]
        following = HEADING.match(printed, heading.end() + length)
        ends = heading.end() + length == len(printed)
        if device is not None and len(data) == length and (following or ends):
            ends_by_name[device.name] = data
        elif not ends:
            # it could not be read, or not all of it: its neighbour is next
            following = HEADING.search(printed, heading.end())
        heading = following
    return ends_by_name


def _decompress(printed: bytes, limit: int) -> bytes:
    """Return at most `limit` bytes, decompressed if the host packed them with gzip; b"" if the archive is damaged."""
    if not printed.startswith(b"\x1f\x8b"):
        return printed[:limit]
    try:
        return zlib.decompressobj(wbits=31).decompress(printed, limit)
    except zlib.error:
        return b""


def with_unlisted_traces(
    listed: Mapping[str, tuple[Signature, ...]],
    heads: Mapping[str, bytes],
    tails: Mapping[str, bytes],
    sizes: Mapping[str, int],
    unread: Collection[str],
) -> dict[str, tuple[Signature, ...]]:
    """Signatures by kernel name, with traces that `wipefs` did not list; without the devices that were not read."""
    return {
        name: _with_traces(signatures, heads.get(name, b""), tails.get(name, b""), sizes[name])
        for name, signatures in listed.items()
        if name not in unread
    }


def _with_traces(
    signatures: tuple[Signature, ...], head: bytes, tail: bytes, size: int
) -> tuple[Signature, ...]:
    types = {signature.type for signature in signatures}
    counted = tuple(
        replace(s, devices=magic.count_devices(s.type, head) or s.devices) for s in signatures
    )
    traces = magic.membership_traces(head, tail, size)
    return (*counted, *(trace for trace in traces if trace.type not in types))
