"""What is left of a layout after a try to take it down, in a person's words: what stands, on which disk, what to do."""

from __future__ import annotations

from collections.abc import Sequence

from agents.contracts import AgentError, Claim, Reason
from agents.facts.model import HostFacts
from agents.plans import blank, lost_disks, stack
from benchlab.hosts import services as hosts
from benchlab.runs.models import Layout

AGAIN = "press “Tear down again”"


def error(layout: Layout, plan: stack.StackPlan, facts: HostFacts) -> AgentError | None:
    """None: every disk is proven blank."""
    if told := stands(layout, plan, facts):
        return AgentError(told, Reason.NEEDS_REBOOT)
    lost = lost_disks.gone(plan.claims, facts)
    left = blank.not_blank([c for c in plan.claims if c not in lost], facts, layout.name)
    said = ["Not blank: " + "; ".join(left)] if left else []
    if lost:
        said.append(_gone(layout, lost))
    if not said:
        return None
    return AgentError(". ".join(said), Reason.NOT_BLANK if left else Reason.DISK_GONE)


def stands(layout: Layout, plan: stack.StackPlan, facts: HostFacts) -> str:
    """Of a layout that still stands in the kernel after a disk of it was pulled out, in this boot. "": it does not."""
    pulled = lost_disks.pulled(plan.claims, facts)
    left = blank.standing(plan.claims, facts, layout.name)
    if not (pulled and left and _same_boot(layout, facts)):
        return ""
    disks = ", ".join(_pulled(layout, claim, facts) for claim in pulled)
    lost = lost_disks.gone(pulled, facts)
    put_back = f"put {_them(lost)} back in, " if lost else ""
    return (
        f"Pulled out of {layout.host} while {layout.name} stood on it: {disks}. The kernel has not let go of what"
        f" stood there: {'; '.join(left)}. No command can take that away: {put_back}reboot {layout.host}, then {AGAIN}."
    )


def _same_boot(layout: Layout, facts: HostFacts) -> bool:
    return (
        layout.facts_planned_id is not None
        and hosts.facts_at(layout.facts_planned_id).boot_id == facts.boot_id
    )


def _gone(layout: Layout, lost: Sequence[Claim]) -> str:
    disks = ", ".join(_words(layout, claim) for claim in lost)
    is_, them = ("is", "it") if len(lost) == 1 else ("are", "them")
    return (
        f"{disks} {is_} not on {layout.host} any more, so nobody can prove {them} blank. Put {them} back in and"
        f" {AGAIN}; where that cannot be, an owner may release the host."
    )


def _pulled(layout: Layout, claim: Claim, facts: HostFacts) -> str:
    now = lost_disks.now_at(claim, facts)
    return _words(layout, claim) + (f", which is {now} now" if now else ", which is not back")


def _them(disks: Sequence[Claim]) -> str:
    return "it" if len(disks) == 1 else "them"


def _words(layout: Layout, claim: Claim) -> str:
    """A disk by what stands on its label."""
    row = layout.host.devices.filter(identity=claim.identity).first()
    known = f"serial {row.serial}" if row and row.serial else claim.identity
    return f"{claim.node} ({claim.model or 'model unknown'}, {known})"
