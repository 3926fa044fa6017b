# SPDX-License-Identifier: Apache-2.0
"""The machine as a text shows it: disks, arrays, pools, memory and kernel in a line each, offered beside the results.

Nothing of it is stored with a result: a person takes over what belongs to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypedDict

from agents.context.model import Facts
from benchlab.web.units import format_size

# rows that a page shows of a file
MAX_ROWS = 60


class MachineRow(TypedDict):
    """`name` is a disk, an array, a pool, or what of the host it is; `line` from 1."""

    kind: str
    name: str
    text: str
    line: int


def describe_machine(facts: Facts) -> list[MachineRow]:
    """Rows in the order host, disks, arrays, pools."""
    rows = [*_host_rows(facts), *_disk_rows(facts), *_array_rows(facts), *_pool_rows(facts)]
    return rows[:MAX_ROWS]


def _host_rows(facts: Facts) -> Iterator[MachineRow]:
    for name, label in (
        ("host.memory", "Memory"),
        ("host.cores", "CPUs"),
        ("host.cpu", "CPU"),
        ("host.kernel", "Kernel"),
        ("host.virtualization", "Virtualization"),
    ):
        fact = facts.find("", name)
        if fact is not None:
            number = facts.number("", name)
            text = str(fact.value) if number is None else f"{number:g}"
            if name == "host.memory" and number is not None:
                text = format_size(number)
            yield MachineRow(kind="host", name=label, text=text, line=fact.line)


def _disk_rows(facts: Facts) -> Iterator[MachineRow]:
    sizes = {fact.subject: fact.line for fact in facts.with_name("disk.size")}
    models = {fact.subject: fact.line for fact in facts.with_name("disk.model")}
    arrays = {fact.subject for fact in facts.with_name("md.level")}
    for name, line in (models | sizes).items():
        kind = facts.text(name, "disk.type")
        # prose names no disk, and a RAID card's slot ("32:0") is not a disk of the host
        is_named = bool(name) and ":" not in name
        if not is_named or name in arrays or kind not in ("", "disk"):
            continue
        size, rotational = facts.number(name, "disk.size"), facts.find(name, "disk.rotational")
        words = [
            facts.text(name, "disk.model"),
            "" if size is None else format_size(size),
            "" if rotational is None else "spins" if rotational.value else "does not spin",
            facts.text(name, "disk.transport"),
            facts.text(name, "disk.write_cache"),
        ]
        yield MachineRow(kind="disk", name=name, text=", ".join(filter(None, words)), line=line)


def _array_rows(facts: Facts) -> Iterator[MachineRow]:
    for level in facts.with_name("md.level"):
        name = level.subject
        chunk, bitmap = facts.number(name, "md.chunk"), facts.text(name, "md.bitmap")
        words = [
            f"{level.value} of {facts.text(name, 'md.members')}".removesuffix(" of "),
            "" if chunk is None else f"chunk {format_size(chunk)}",
            f"bitmap {bitmap}" if bitmap else "",
            facts.text(name, "md.sync_action"),
        ]
        text = ", ".join(filter(None, words))
        yield MachineRow(kind="array", name=name, text=text, line=level.line)


def _pool_rows(facts: Facts) -> Iterator[MachineRow]:
    for vdevs in facts.with_name("pool.vdevs"):
        name = vdevs.subject
        log, cache = facts.text(name, "pool.log"), facts.text(name, "pool.cache")
        words = [str(vdevs.value), f"log {log}" if log else "", f"cache {cache}" if cache else ""]
        text = ", ".join(filter(None, words))
        yield MachineRow(kind="pool", name=name, text=text, line=vdevs.line)


def disk_names(rows: Iterable[MachineRow]) -> str:
    """Names of the disks, each once, as the form for the disks of a role takes them."""
    return " ".join(dict.fromkeys(row["name"] for row in rows if row["kind"] == "disk"))
