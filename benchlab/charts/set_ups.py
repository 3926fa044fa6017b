# SPDX-License-Identifier: Apache-2.0
"""Runs of one set-up over time: those of an equal fingerprint, or of one that is equal in all but one part.

A fingerprint is a hash. To let one part of it go, runs that did the same on the same stack of the same host are
taken, and of each of their fingerprints one run's parts are made again from what is stored (facts, plan, tool's
version): those count that are equal in every other part. A part that one run's source told and the other's did not is
not equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce

from benchlab.charts.conditions import describe_device, iterate_claims
from benchlab.charts.queries import Person
from benchlab.hosts.models import FactSnapshot
from benchlab.runs import active_facts
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import Outcome

# What may be let go, and its name on pages; all else a history holds on to.
FINGERPRINT_PARTS = {
    "kernel": "Kernel",
    "firmware": "Firmware of the disks",
    "tool": "Tool version",
    "scheduler": "I/O scheduler",
}
# runs of a history, the last ones
MAX_HISTORY_RUNS = 1000
HISTORY_COLUMNS = (
    "run_id",
    "layout_id",
    "fingerprint",
    "facts_id",
    "tool_version",
    "started_at",
    "ended_at",
    "created_at",
    "run__campaign_id",
    "run__campaign__name",
    "run__repeat",
)


def attempts_like(
    user: Person, reference: Attempt, let_go: str = ""
) -> tuple[Sequence[Attempt], dict[str, str]]:
    """(attempts that `user` may see, oldest first; {fingerprint: the part that was let go, in words}).

    Of each run its last attempt that succeeded; at most MOST runs. `reference` is one whose run and layout are loaded.
    """
    if not reference.fingerprint:
        return [], {}
    if not let_go:
        return _last_attempts(
            _succeeded_attempts(user).filter(fingerprint=reference.fingerprint)
        ), {}
    candidates = _same_work(user, reference)
    equal = _equal_except(let_go, reference, candidates)
    return _last_attempts(candidates.filter(fingerprint__in=list(equal))), equal


def _succeeded_attempts(user: Person) -> QuerySet[Attempt]:
    return Attempt.objects.visible_to(user).filter(outcome=Outcome.SUCCEEDED)


def _same_work(user: Person, reference: Attempt) -> QuerySet[Attempt]:
    """Attempts that are equal in the columns of a fingerprint: the same on the same stack, at the same moment, in
    order.
    """
    run, layout = reference.run, reference.layout
    return _succeeded_attempts(user).filter(
        degraded=reference.degraded,
        run__host=run.host_id,
        run__tool=run.tool,
        run__stage=run.stage,
        run__options=run.options,
        layout__stack=layout.stack,
        layout__stages=layout.stages,
    )


def _last_attempts(attempts: QuerySet[Attempt]) -> Sequence[Attempt]:
    newest = attempts.order_by("run_id", "-number").distinct("run_id").values("pk")
    rows = (
        Attempt.objects.filter(pk__in=newest)
        .annotate(at=Coalesce("started_at", "ended_at", "created_at"))
        .select_related("run__campaign")
        .only(*HISTORY_COLUMNS)
        .order_by(F("at").desc(), "-pk")[:MAX_HISTORY_RUNS]
    )
    return list(rows)[::-1]


def _equal_except(let_go: str, reference: Attempt, candidates: QuerySet[Attempt]) -> dict[str, str]:
    """{fingerprint: that part in words} of those that are equal in all others."""
    each = list(
        candidates.exclude(fingerprint="")
        .order_by("fingerprint", "-pk")
        .distinct("fingerprint")
        .select_related("layout", "facts")
        .only("fingerprint", "tool_version", "meta", "layout__plan", "facts__facts")
    )
    reference_parts = fingerprint_parts(reference, reference.layout, reference.facts)
    parts_by_fingerprint = {
        attempt.fingerprint: fingerprint_parts(attempt, attempt.layout, attempt.facts)
        for attempt in each
    }
    parts_by_fingerprint[reference.fingerprint] = reference_parts
    return {
        digest: parts[let_go]
        for digest, parts in parts_by_fingerprint.items()
        if all(parts[name] == reference_parts[name] for name in reference_parts if name != let_go)
    }


def fingerprint_parts(
    attempt: Attempt, layout: Layout, facts: FactSnapshot | None
) -> dict[str, str]:
    """The parts of a fingerprint that no column holds, in words; "" where nobody told."""
    active = active_facts.facts_during_attempt(facts.facts if facts else {}, attempt.meta)
    devices = {
        identity: describe_device(active, claim) for identity, claim in iterate_claims(layout.plan)
    }
    return {
        "kernel": str(active.get("kernel", "")),
        "tool": attempt.tool_version,
        "firmware": _text_by_device(devices, ("firmware",)),
        "scheduler": _text_by_device(devices, ("scheduler",)),
        "devices": _text_by_device(devices, ("model", "size", "sectors")),
        "cpu": f"{active.get('cpus', '')} x {active.get('cpu_model', '')}",
        "memory": str(active.get("memory", "")),
    }


def _text_by_device(devices: Mapping[str, Mapping[str, str]], names: Iterable[str]) -> str:
    """One word where all devices have it, else each device's by its identity."""
    properties = tuple(names)
    texts = {who: " ".join(filter(None, (d[n] for n in properties))) for who, d in devices.items()}
    if len(properties) == 1 and len(set(texts.values())) < 2:
        return "".join(set(texts.values()))
    return ", ".join(f"{who} {text}" for who, text in sorted(texts.items()))
