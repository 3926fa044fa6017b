# SPDX-License-Identifier: Apache-2.0
"""Plans of drafts for the preview that a person confirms, from facts read now: one reading serves a host's others."""

from __future__ import annotations

from django.db.models import QuerySet
from django.utils import timezone

from agents.contracts import AgentError, GuardError
from agents.plans import applied_part as plans
from benchlab.engine.checks import planning
from benchlab.hosts import discovery
from benchlab.hosts.models import FactSnapshot
from benchlab.runs import events, progress
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase
from benchlab.web.units import duration
from benchlab.workers.lease import Lock, lease


def plan_draft(layout_id: int) -> None:
    """Plan a draft now and store the plan, or why there is none. Anything but a draft is left alone."""
    draft = Layout.objects.select_related("host__credential").get(pk=layout_id)
    if draft.phase == LayoutPhase.DRAFT:
        _store_plan(layout_id, _facts_or_error(draft))


def plan_drafts_of_host(layout_id: int) -> None:
    """Plan a draft as a worker was asked to, together with the other requested drafts of its host.

    One reading of the host serves all its requested drafts: several at a time would make a slow host too slow for each.
    If another worker already plans drafts of this host, leave them to it: a plan that takes long is requested again.
    """
    draft_id: int | None = layout_id
    for _ in range(2):
        if draft_id is None:
            return
        draft = Layout.objects.select_related("host__credential").get(pk=draft_id)
        if draft.phase != LayoutPhase.DRAFT:
            return
        with lease(draft.host_id, Lock.PLANNED_HOST) as held:
            if not held:
                return
            _plan_requested_drafts(draft)
            # Drafts requested while the host was read: their workers gave up because the lease was held.
        draft_id = (
            _requested_drafts(draft).exclude(pk=draft_id).values_list("pk", flat=True).first()
        )


def _requested_drafts(draft: Layout) -> QuerySet[Layout]:
    """Drafts of the same host, of any campaign, whose plans were asked for and have not come."""
    rows = Layout.objects.filter(host=draft.host_id, phase=LayoutPhase.DRAFT, planned_at=None)
    return rows.exclude(next_step_at=None).order_by("pk")


def _plan_requested_drafts(draft: Layout) -> None:
    read = _facts_or_error(draft)
    others = _requested_drafts(draft).exclude(pk=draft.pk).values_list("pk", flat=True)
    for pk in [draft.pk, *others]:
        with lease(pk) as held:
            if held:
                _store_plan(pk, read)


def _facts_or_error(draft: Layout) -> FactSnapshot | AgentError:
    try:
        return discovery.read_facts(draft.host)
    except AgentError as error:
        return error


def _store_plan(layout_id: int, read: FactSnapshot | AgentError) -> None:
    layout = Layout.objects.select_related("host__credential").get(pk=layout_id)
    if layout.phase != LayoutPhase.DRAFT:
        return
    fields: dict[str, object] = {"plan": None, "plan_fingerprint": "", "plan_error": ""}
    try:
        if isinstance(read, AgentError):
            raise read
        snapshot = read
        plan = planning.plan_layout(layout, discovery.facts_of(snapshot))
        fields |= {
            "plan": plans.to_json(plan),
            "plan_fingerprint": plan.fingerprint,
            "facts_planned": snapshot,
        }
    except GuardError as error:
        fields["plan_error"] = _host_in_use(layout) or str(error)
    except AgentError as error:
        fields["plan_error"] = str(error)
    Layout.objects.filter(pk=layout_id, phase=LayoutPhase.DRAFT).update(
        planned_at=timezone.now(), **fields
    )
    events.notify_pages(layout.campaign_id)


def _host_in_use(layout: Layout) -> str:
    """Sentence on the campaign whose layout stands on the host and may hold the disks; "" where none does.

    It says nothing of single disks: which of them are free is known when that campaign is over.
    """
    rows = Layout.objects.holding().filter(host=layout.host_id).exclude(pk=layout.pk)
    holder = rows.select_related("campaign").first()
    if holder is None:
        return ""
    state = progress.campaign_progress(holder.campaign)
    remaining = f"about {duration(state.eta_s)} left" if state.eta_s else state.state.label.lower()
    name = f"campaign {holder.campaign_id}, {holder.campaign} ({remaining})"
    return f"{layout.host} is in use by {name}. Plan again when that is over."
