"""What a request for a chart asks for: which lines, which quantity. A wrong word is a 400 that names it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import QueryDict

from benchlab.charts.curve import LATENCIES, METRICS, OPERATIONS, Choice
from benchlab.charts.queries import Group


@dataclass(frozen=True, slots=True)
class Filter:
    """Which lines; an empty set is no wish."""

    campaigns: tuple[int, ...]
    topologies: frozenset[int]
    hosts: frozenset[int]
    workloads: frozenset[int]

    def keep(self, groups: list[Group]) -> list[Group]:
        return [
            group
            for group in groups
            if (not self.topologies or group.topology in self.topologies)
            and (not self.hosts or group.host in self.hosts)
            and (not self.workloads or group.workload in self.workloads)
        ]

    def query(self) -> str:
        """Back as a query string, for the URLs of figure and CSV; each chart adds its own workload."""
        pairs = [("campaign", pk) for pk in self.campaigns]
        pairs += [("topology", pk) for pk in sorted(self.topologies)]
        pairs += [("host", pk) for pk in sorted(self.hosts)]
        return urlencode(pairs)


def choice(query: QueryDict) -> Choice:
    latency = _one(query, "latency", ("", "all", *LATENCIES))
    shown = tuple(LATENCIES) if latency == "all" else (latency,) if latency else ()
    return Choice(
        metric=_one(query, "metric", METRICS, "iops"),
        operation=_one(query, "operation", OPERATIONS),
        latencies=shown,
    )


def lines(query: QueryDict) -> Filter:
    return Filter(
        tuple(dict.fromkeys(_numbers(query, "campaign"))),
        frozenset(_numbers(query, "topology")),
        frozenset(_numbers(query, "host")),
        frozenset(_numbers(query, "workload")),
    )


def seconds(query: QueryDict, name: str) -> float:
    try:
        return float(query.get(name) or 0)
    except ValueError:
        raise BadRequest(f"{name}: {query[name]!r} is no number of seconds") from None


def _one(query: QueryDict, name: str, allowed: Iterable[str], default: str = "") -> str:
    wanted = query.get(name, default)
    words = list(allowed)
    if wanted not in words:
        raise BadRequest(f"{name}: {wanted!r} is none of {', '.join(filter(None, words))}")
    return wanted


def _numbers(query: QueryDict, name: str) -> list[int]:
    words = query.getlist(name)
    if wrong := [
        word for word in words if not (word.isascii() and word.isdigit() and len(word) < 19)
    ]:
        raise BadRequest(f"{name}: {wrong[0]!r} is no id")
    return [int(word) for word in words]
