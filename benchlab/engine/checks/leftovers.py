# SPDX-License-Identifier: Apache-2.0
"""Leftovers of a layout after a failed teardown, in plain words: what is left, on which disk, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agents.contracts import AgentError, Claim, Reason
from agents.facts.model import HostFacts
from agents.plans import blank, layout_faults, stack
from benchlab.engine.checks import planning
from benchlab.runs.models import Layout

RETRY_HINT = "press “Tear down again”"


def leftover_error(layout: Layout, plan: stack.StackPlan, facts: HostFacts) -> AgentError | None:
    """Error that names the leftovers; None if every disk is proven blank."""
    if message := still_in_kernel(layout, plan, facts):
        return AgentError(message, Reason.NEEDS_REBOOT)
    lost = layout_faults.missing_claims(plan.claims, facts)
    not_blank = blank.not_blank([c for c in plan.claims if c not in lost], facts, layout.name)
    sentences = ["Not blank: " + "; ".join(not_blank)] if not_blank else []
    if lost:
        sentences.append(_missing_disks_text(layout, lost))
    if not sentences:
        return None
    return AgentError(". ".join(sentences), Reason.NOT_BLANK if not_blank else Reason.DISK_GONE)


def still_in_kernel(layout: Layout, plan: stack.StackPlan, facts: HostFacts) -> str:
    """Message if the kernel still holds the layout after a disk of it was pulled out in this boot; "" otherwise."""
    pulled = layout_faults.pulled_claims(plan.claims, facts)
    standing = blank.kernel_remains(plan.claims, facts, layout.name)
    if not (pulled and standing and _same_boot(layout, facts)):
        return ""
    disks = ", ".join(_pulled_disks(layout, pulled, facts))
    lost = layout_faults.missing_claims(pulled, facts)
    put_back = f"put {_pronoun(lost)} back in, " if lost else ""
    return (
        f"Pulled out of {layout.host} while {layout.name} used it: {disks}. The kernel still holds what was built"
        f" there: {'; '.join(standing)}. No command can remove that: {put_back}reboot {layout.host}, then {RETRY_HINT}."
    )


def _same_boot(layout: Layout, facts: HostFacts) -> bool:
    planned = planning.facts_at_planning(layout)
    return planned is not None and planned.boot_id == facts.boot_id


def _missing_disks_text(layout: Layout, lost: Sequence[Claim]) -> str:
    disks = ", ".join(_disk_labels(layout, lost))
    is_, they, them = ("is", "it", "it") if len(lost) == 1 else ("are", "they", "them")
    return (
        f"{disks} {is_} not on {layout.host} any more, so {they} cannot be proven blank. Put {them} back in and"
        f" {RETRY_HINT}; where that cannot be, an owner may release the host."
    )


def _pulled_disks(layout: Layout, disks: Sequence[Claim], facts: HostFacts) -> Iterator[str]:
    for claim, words in zip(disks, _disk_labels(layout, disks), strict=True):
        now = layout_faults.current_path(claim, facts)
        yield words + (f", which is {now} now" if now else ", which is not back")


def _pronoun(disks: Sequence[Claim]) -> str:
    return "it" if len(disks) == 1 else "them"


def _disk_labels(layout: Layout, disks: Sequence[Claim]) -> list[str]:
    """Each disk by what stands on its label."""
    rows = layout.host.devices.filter(identity__in=[claim.identity for claim in disks])
    serials = dict(rows.values_list("identity", "serial"))
    return [_disk_label(claim, serials.get(claim.identity, "")) for claim in disks]


def _disk_label(claim: Claim, serial: str) -> str:
    identifier = f"serial {serial}" if serial else claim.identity
    return f"{claim.node} ({claim.model or 'model unknown'}, {identifier})"
