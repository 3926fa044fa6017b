"""The log of commands: a StepLog row is there before its command runs, and completed after. One that was refused has
its row too, and destroys nothing there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from django.utils import timezone

from agents import apply
from agents.contracts import AgentError, Claim, Reason, Shell, Step
from agents.facts.model import HostFacts
from agents.gone import as_now
from benchlab.audit import chain
from benchlab.hosts import services as hosts
from benchlab.runs import events, moves
from benchlab.runs.models import Layout, StepLog


def run(
    layout: Layout,
    steps: Iterable[Step],
    shell: Shell,
    kind: StepLog.Kind,
    look: apply.Look | None = None,
    part: str = "",
    claims: Sequence[Claim] = (),
) -> None:
    """Execute `steps` by agents.apply, guarded, each one logged as of `part`. Raises AgentError when one fails.

    `claims`: disks of a layout that comes down, as they were when it was planned; see agents.gone.
    """

    def read_facts() -> HostFacts:
        return as_now(hosts.look(shell), claims)

    apply.apply(
        tuple(steps),
        shell,
        layout=layout.name,
        spares=hosts.spares(layout.host),
        read_facts=read_facts,
        log=_logger(layout, kind, part),
        undo=kind == StepLog.Kind.APPLY,
        look=look,
    )


def cut_off(layout: Layout, during: str, then: str) -> AgentError:
    """Commands were begun and nobody knows how far they came: by the last trouble, or the worker ended in them."""
    if layout.trouble:
        return AgentError(f"{layout.trouble} That was while {during}. {then}", Reason.HOST_LOST)
    return AgentError(f"BenchLab's worker ended while {during}. {then}", Reason.WORKER_LOST)


def _logger(layout: Layout, kind: StepLog.Kind, part: str) -> Callable[[apply.StepRecord], None]:
    rows: dict[int, int] = {}  # index of the record -> StepLog row

    def log(record: apply.StepRecord) -> None:
        if record.index not in rows:
            what = StepLog.Kind.UNDO if record.undo else kind
            rows[record.index] = _begin(layout, what, part, record)
        if record.exit_code is not None or record.error:
            StepLog.objects.filter(pk=rows[record.index]).update(
                exit_code=record.exit_code,
                stdout=record.stdout,
                stderr=record.stderr or record.error,
                ended_at=timezone.now(),
            )
        if record.exit_code is not None:
            moves.note(layout, seen_at=timezone.now())
        events.changed(layout.campaign_id)

    return log


def _begin(layout: Layout, kind: StepLog.Kind, part: str, record: apply.StepRecord) -> int:
    if record.destroys:
        _audit(layout, kind, record)
    return StepLog.objects.create(
        layout=layout,
        kind=kind,
        part=part,
        argv=list(record.argv),
        says=record.says,
        destroys=list(record.destroys),
    ).pk


def _audit(layout: Layout, kind: StepLog.Kind, record: apply.StepRecord) -> None:
    """Before it runs: what may destroy something is told even if nobody lives to tell how it went."""
    chain.record(
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
