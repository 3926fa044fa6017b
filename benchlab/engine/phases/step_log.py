# SPDX-License-Identifier: Apache-2.0
"""The log of commands: a StepLog row is there before its command runs, and completed after. One that was refused has
its row too, and destroys nothing there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from django.db import transaction
from django.utils import timezone

from agents.contracts import Claim, Shell, Step
from agents.facts.model import HostFacts
from agents.plans.layout_faults import with_current_names
from agents.safety import apply
from benchlab.audit import chain
from benchlab.engine.checks import planning
from benchlab.hosts import discovery, spare_disks
from benchlab.runs import events, transitions
from benchlab.runs.models import Layout, StepLog
from benchlab.runs.states import LayoutPhase


def run_steps(
    layout: Layout,
    steps: Iterable[Step],
    shell: Shell,
    kind: StepLog.Kind,
    look: apply.Look | None = None,
    part: str = "",
    claims: Sequence[Claim] = (),
) -> None:
    """Execute `steps` by agents.safety.apply, guarded, each one logged as of `part`. Raises AgentError when one fails,
    and Moved before the next one once the layout that is being built was cancelled.

    `claims`: disks of a layout that comes down, as they were when it was planned; see agents.plans.layout_faults.
    """

    def read_facts() -> HostFacts:
        return with_current_names(discovery.read_current_facts(shell), claims, layout.name)

    apply.apply(
        tuple(steps),
        shell,
        layout=layout.name,
        spares=spare_disks.host_spares(layout.host),
        read_facts=read_facts,
        log=_logger(layout, kind, part),
        undo=kind == StepLog.Kind.APPLY,
        look=look,
        touched=set().union(*planning.touched_disks(layout)),
    )


def _logger(layout: Layout, kind: StepLog.Kind, part: str) -> Callable[[apply.StepRecord], None]:
    # index of the record -> StepLog row
    rows: dict[int, int] = {}

    def log(record: apply.StepRecord) -> None:
        if record.index not in rows:
            _raise_if_cancelled(layout)
            what = StepLog.Kind.UNDO if record.undo else kind
            rows[record.index] = _log_start(layout, what, part, record)
        if record.exit_code is not None or record.error:
            StepLog.objects.filter(pk=rows[record.index]).update(
                exit_code=record.exit_code,
                stdout=record.stdout,
                stderr=record.stderr or record.error,
                ended_at=timezone.now(),
            )
        if record.exit_code is not None:
            transitions.note_response(layout)
        events.notify_pages(layout.campaign_id)

    return log


def _raise_if_cancelled(layout: Layout) -> None:
    """A build takes minutes, and what it would still make is only taken down again."""
    building = layout.phase == LayoutPhase.PROVISIONING
    if building and Layout.objects.filter(pk=layout.pk, cancelled_at__isnull=False).exists():
        raise transitions.Moved


def _log_start(layout: Layout, kind: StepLog.Kind, part: str, record: apply.StepRecord) -> int:
    """Store the row of a command, with an audit entry if it destroys something: both are stored, or it does not run."""
    row = StepLog(
        layout=layout,
        kind=kind,
        part=part,
        argv=list(record.argv),
        says=record.says,
        destroys=list(record.destroys),
    )
    if not record.destroys:
        row.save()
        return row.pk
    with transaction.atomic():
        row.save()
        # last: until the end everybody else's entries wait for it
        _audit_destruction(layout, kind, record)
    return row.pk


def _audit_destruction(layout: Layout, kind: StepLog.Kind, record: apply.StepRecord) -> None:
    """Add an audit entry before a command that may destroy something, in case nothing can report on it afterwards."""
    chain.add_entry(
        "destroy",
        actor=layout.confirmed_by,
        team_id=layout.campaign.team_id,
        subject=f"host {layout.host}: {', '.join(record.destroys)}",
        details={
            "layout": layout.name,
            "kind": kind.value,
            "argv": list(record.argv),
            "plan": layout.confirmed_fingerprint,
        },
    )
