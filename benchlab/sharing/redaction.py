# SPDX-License-Identifier: Apache-2.0
"""Redaction for guests: host names, serials and addresses become "host A", "disk A1", the same ones everywhere.

It replaces words in every text that is shown, not only in the fields that hold them: people write a host's name
into topologies and questions, and the kernel a disk's serial into a pool.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

from django.db.models import JSONField, Model, Q, QuerySet

from benchlab.campaigns.models import Run
from benchlab.charts.conditions import ConditionTable, Differences
from benchlab.charts.figure import Figure
from benchlab.charts.queries import Group
from benchlab.hosts.models import Device, FactSnapshot, Host
from benchlab.team.models import Team

T = TypeVar("T")
# Characters from which on a word is hidden inside of others too: bl17/ata-DISK_SERIAL-part1
LONG = 5
CLICKS = re.compile(r"(?:<br>| · )click opens it")
ADDRESS, OTHER_HOST, OTHER_DISK = "(address)", "another host", "another disk"
# Generic names of people and machines: hiding them would hide ordinary words.
PLAIN = {"localhost", "host", "hosts", "this machine"}


@dataclass(frozen=True, slots=True)
class Redaction:
    """Replacements: `words` by lower-case word, `hosts` by host id, `names` by host name."""

    words: Mapping[str, str]
    pattern: re.Pattern[str] | None
    hosts: Mapping[int, str]
    names: Mapping[str, str]

    def redact_text(self, text: str) -> str:
        if self.pattern is None:
            return text
        return self.pattern.sub(
            lambda match: self.words.get(match.group().lower(), "(hidden)"), text
        )

    def redact(self, value: T) -> T:
        """Redact every text in a value: lists, dicts, dataclasses; a model's row as a copy."""
        redacted: T = self._redact(value) if self.pattern is not None or self.hosts else value
        return redacted

    def _redact(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, Mapping):
            return {self._redact(key): self._redact(item) for key, item in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self._redact, value))
        if isinstance(value, (list, tuple, set, frozenset)):
            return type(value)(map(self._redact, value))
        if is_dataclass(value) and not isinstance(value, type):
            values = {
                field.name: self._redact(getattr(value, field.name))
                for field in fields(value)
                if field.init
            }
            return replace(value, **values)
        return self._redact_row(value) if isinstance(value, Model) else value

    def _redact_row(self, row: Model) -> Model:
        """Redact texts and JSON of the row, and of the related rows read with it."""
        redacted = copy.copy(row)
        if isinstance(redacted, Host):
            redacted.name = self.hosts.get(redacted.pk, redacted.name)
        redacted._state = copy.copy(row._state)
        redacted._state.fields_cache = {
            name: self._redact_row(other) if isinstance(other, Model) else other
            for name, other in row._state.fields_cache.items()
        }
        for field in row._meta.concrete_fields:
            value = row.__dict__.get(field.attname)
            if isinstance(value, str) or isinstance(field, JSONField):
                setattr(redacted, field.attname, self._redact(value))
        return redacted

    def redact_groups(self, groups: Iterable[Group]) -> list[Group]:
        """Redact lines, including hosts whose names are too short to be replaced in texts."""
        renamed = (
            replace(group, host_name=self.hosts.get(group.host, group.host_name))
            for group in groups
        )
        return [self.redact(group) for group in renamed]

    def redact_differences(self, differences: Mapping[int, Differences]) -> dict[int, Differences]:
        return {
            workload: self.redact(_rename_hosts(difference, self.names))
            for workload, difference in differences.items()
        }

    def redact_figure(self, figure: Figure) -> Figure:
        """Redact a figure and remove the links of its points, which a guest cannot open."""
        redacted: Figure = remove_links(self.redact(figure))
        return redacted


def _rename_hosts(differences: Differences, names: Mapping[str, str]) -> Differences:
    return replace(
        differences,
        compared=_rename_table_hosts(differences.compared, names),
        others=_rename_table_hosts(differences.others, names),
    )


def _rename_table_hosts(table: ConditionTable, names: Mapping[str, str]) -> ConditionTable:
    at = table.names.index("Host") if "Host" in table.names else -1
    rows = tuple(
        (label, tuple(names.get(v, v) if n == at else v for n, v in enumerate(values)))
        for label, values in table.rows
    )
    return replace(table, rows=rows)


def remove_links(figure: Any) -> Any:
    """Return the figure without links."""
    if isinstance(figure, dict):
        return {key: remove_links(value) for key, value in figure.items() if key != "customdata"}
    if isinstance(figure, list):
        return [remove_links(value) for value in figure]
    return CLICKS.sub("", figure) if isinstance(figure, str) else figure


def build_redaction(runs: QuerySet[Run], team: Team, hide_hosts: bool) -> Redaction:
    """Hide all hosts of these runs and of the team: people compare with others, too. Always hide addresses."""
    shared_hosts = set(runs.order_by().values_list("host", flat=True))
    hosts = list(Host.objects.filter(Q(team=team) | Q(pk__in=shared_hosts)).order_by("pk"))
    aliases = {pk: f"host {host_letters(n)}" for n, pk in enumerate(sorted(shared_hosts))}
    words: dict[str, str] = {}
    if hide_hosts:
        for host in hosts:
            _add_word(words, host.name, aliases.get(host.pk, OTHER_HOST))
        _add_host_names(words, [host.pk for host in hosts], aliases)
        _add_disk_names(words, [host.pk for host in hosts], aliases)
    for host in hosts:
        if hide_hosts or host.address.lower() != host.name.lower():
            _add_word(words, host.address, ADDRESS)
    hidden = [host for host in hosts if hide_hosts and host.pk in aliases]
    return Redaction(
        words,
        _word_pattern(tuple(sorted(words))),
        {host.pk: aliases[host.pk] for host in hidden},
        {host.name: aliases[host.pk] for host in hidden},
    )


def host_letters(number: int) -> str:
    """0 -> A, 25 -> Z, 26 -> AA."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(65 + rest) + text
    return text


def _add_host_names(
    words: dict[str, str], hosts: Iterable[int], aliases: Mapping[int, str]
) -> None:
    """Add the names that hosts call themselves, whole and without their domain."""
    rows = FactSnapshot.objects.filter(host__in=hosts).order_by("host")
    for host, name in rows.values_list("host", "facts__hostname").distinct():
        for host_name in (str(name or ""), str(name or "").partition(".")[0]):
            _add_word(words, host_name, aliases.get(host, OTHER_HOST))


def _add_disk_names(
    words: dict[str, str], hosts: Iterable[int], aliases: Mapping[int, str]
) -> None:
    counts: dict[int, int] = {}
    for disk in Device.objects.filter(host__in=hosts).order_by("host", "pk"):
        counts[disk.host_id] = counts.get(disk.host_id, 0) + 1
        letter = aliases.get(disk.host_id, "").removeprefix("host ")
        alias = f"disk {letter}{counts[disk.host_id]}" if letter else OTHER_DISK
        for identifier in (disk.identity, disk.serial, disk.wwn):
            for spelled in _spellings(identifier):
                _add_word(words, spelled, alias)


def _spellings(identifier: str) -> Iterator[str]:
    """Yield the spellings of an identifier in facts, /dev/disk/by-id and pools."""
    yield identifier
    core = (
        identifier.partition(":")[2] if identifier.startswith(("wwn:", "serial:")) else identifier
    )
    for prefix in ("0x", "eui.", "naa.", "nvme."):
        core = core.removeprefix(prefix)
    if not identifier.startswith("weak:"):
        yield core
        yield re.sub(r"\s+", "_", core)
        yield re.sub(r"[\s_-]+", "", core)


def _add_word(words: dict[str, str], word: str, alias: str) -> None:
    word = word.strip().lower()
    # A word of one letter or of few digits would be found in numbers, and a number must stay what it is.
    if len(word) < 2 or word in PLAIN or (word.isdigit() and len(word) < LONG):
        return
    words.setdefault(word, alias)
    # as pages show options
    words.setdefault(json.dumps(word)[1:-1].lower(), alias)


@lru_cache(maxsize=64)
def _word_pattern(words: tuple[str, ...]) -> re.Pattern[str] | None:
    """Return a pattern for the longest word at each place; a short word must stand alone."""
    long = [word for word in words if len(word) >= LONG]
    short = [word for word in words if len(word) < LONG]
    parts = [prefix_pattern(long)] if long else []
    parts += [rf"(?<![^\W_])(?:{prefix_pattern(short)})(?![^\W_])"] if short else []
    return re.compile("|".join(parts), re.IGNORECASE) if parts else None


def prefix_pattern(words: Iterable[str]) -> str:
    """Return a pattern as fast for ten thousand words as for ten, since it tests common prefixes once."""
    by_first: dict[str, list[str]] = {}
    ends = False
    for word in words:
        if word:
            by_first.setdefault(word[0], []).append(word[1:])
        else:
            ends = True
    branches = [re.escape(first) + prefix_pattern(rest) for first, rest in sorted(by_first.items())]
    if not branches:
        return ""
    return f"(?:{'|'.join(branches)}){'?' if ends else ''}"
