# SPDX-License-Identifier: Apache-2.0
"""A draft layout's plan as a person reads it before saying yes: picture, commands, what is lost, what will run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db.models import Count, Q, Sum

from agents import options as driver_options
from agents.contracts import AgentError, Target
from agents.drivers import registry
from agents.drivers.packages import MissingPrograms
from agents.facts.model import HostFacts
from agents.plaintext import of_file
from agents.plans import applied_part, fits, stack
from agents.plans.chain import specs
from agents.quote import format_command
from benchlab.campaigns import matrix
from benchlab.campaigns.models import Campaign, Run
from benchlab.engine import jobs
from benchlab.engine.checks import planning
from benchlab.hosts import discovery, package_installs
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase
from benchlab.topologies import plan_view

MAX_POINTS = 60


@dataclass(frozen=True, slots=True)
class PlannedPoint:
    """Command and files of one point that will run."""

    workload: str
    point: str
    argv: str
    files: tuple[tuple[str, str], ...]
    error: str = ""
    # what speaks against the figures that it will give
    doubt: str = ""
    # whose rights it will have
    runs_as: str = ""


NOTHING_MISSING = MissingPrograms((), ())


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    layout: Layout
    plan: plan_view.PlanView = field(default_factory=plan_view.PlanView)
    points: list[PlannedPoint] = field(default_factory=list)
    hidden_points: int = 0
    # how often each point runs on it
    repeats: int = 0
    runs: int = 0
    error: str = ""
    # what a person must do, in order
    manual_steps: list[str] = field(default_factory=list)
    missing: MissingPrograms = NOTHING_MISSING
    # an earlier visit with the same commands, but for the names
    same_as: Layout | None = None

    @property
    def comparison_key(self) -> tuple[int, int, list[str]]:
        """Key of visits that have the same to do: without names, and the UUIDs made of them."""
        texts = [
            plan_view.UUID.sub("", command.text.replace(self.layout.name, ""))
            for command in self.plan.commands
        ]
        return self.layout.host_id, self.layout.topology_id, texts

    @property
    def doubts(self) -> list[str]:
        """Each once, however many points it concerns."""
        return list(dict.fromkeys(f"{p.workload}: {p.doubt}" for p in self.points if p.doubt))

    @property
    def pending(self) -> bool:
        return self.layout.planned_at is None


@dataclass(frozen=True, slots=True)
class HostCost:
    """Expected cost of one host: seconds, and bytes; `unknown` runs of it cannot tell what they will write."""

    building: float = 0.0
    measuring: float = 0.0
    written_bytes: int = 0
    unknown_runs: int = 0

    @property
    def total_seconds(self) -> float:
        return self.building + self.measuring


@dataclass(frozen=True, slots=True)
class CampaignPlans:
    """`costs`: by host; hosts work side by side. `added`: they are for added repeats."""

    views: list[LayoutPlan]
    costs: Sequence[HostCost] = ()
    added: bool = False

    @property
    def pending_count(self) -> int:
        return sum(view.pending for view in self.views)

    @property
    def visits(self) -> int:
        return max((view.layout.visit for view in self.views), default=1)

    @property
    def made_at(self) -> datetime | None:
        """Time when the last of them was made; None without any."""
        times = [view.layout.planned_at for view in self.views if view.layout.planned_at]
        return max(times, default=None)

    @property
    def run_count(self) -> int:
        return sum(view.runs for view in self.views)

    @property
    def busiest(self) -> HostCost:
        """Cost of the host that finishes last."""
        return max(self.costs, key=lambda cost: cost.total_seconds, default=HostCost())

    @property
    def building_seconds(self) -> float:
        """Seconds that building these layouts, and taking them down, should take on the busiest host."""
        return self._busiest_seconds(first_visit=1)

    @property
    def rebuild_seconds(self) -> float:
        """Seconds of it that the visits after the first cost."""
        return self._busiest_seconds(first_visit=2)

    def _busiest_seconds(self, first_visit: int) -> float:
        layouts = (view.layout for view in self.views if view.layout.visit >= first_visit)
        return max(_building_by_host(layouts).values(), default=0.0)

    @property
    def written_bytes(self) -> int:
        """Bytes that all of their runs should write."""
        return sum(cost.written_bytes for cost in self.costs)

    @property
    def unknown_runs(self) -> int:
        return sum(cost.unknown_runs for cost in self.costs)

    @property
    def marks(self) -> list[tuple[plan_view.Command, int]]:
        """Counts of commands by mark, over all layouts."""
        return plan_view.PlanView(
            [row for view in self.views for row in view.plan.commands]
        ).mark_counts

    @property
    def layers_down(self) -> int:
        """Number of layers that are taken down afterwards: the lines before those about disks."""
        return sum(not row.of_disks for view in self.views for row in view.plan.down)

    @property
    def is_loss_known(self) -> bool:
        """True when the losses of at least one layout are known."""
        return any(not (view.pending or view.error) for view in self.views)

    @property
    def is_ready(self) -> bool:
        return not self.pending_count and not any(view.error for view in self.views)

    @property
    def lost(self) -> list[plan_view.LostDisk]:
        """Each disk that is destroyed, with the layouts that take it."""
        return plan_view.merge_lost_disks(
            plan_view.LostDisk(view.layout.host.name, disk, (view.layout.name,))
            for view in self.views
            for disk in view.plan.destroyed
        )

    @property
    def host_names(self) -> list[str]:
        """Names of the hosts of the lost disks."""
        return sorted({loss.host for loss in self.lost})

    @property
    def lost_bytes(self) -> int:
        return sum(loss.disk.size for loss in self.lost)

    @property
    def phrase(self) -> str:
        """Phrase that a person must type before all this may start; "" when no disk is touched."""
        return plan_view.destroy_phrase(self.lost)


def read_plans(campaign: Campaign) -> CampaignPlans:
    """Every layout whose plan nobody has confirmed yet."""
    drafts = campaign.layouts.filter(phase=LayoutPhase.DRAFT)
    rows = drafts.select_related("host", "topology", "facts_planned").order_by("position", "pk")
    views = _mark_same_visits([_layout_plan(row) for row in rows])
    added = any(view.layout.visit > campaign.visits for view in views)
    pending = any(view.pending for view in views)
    shows_costs = views and (added or campaign.visits > 1 or not pending)
    return CampaignPlans(views, _host_costs(campaign, views) if shows_costs else (), added)


def _building_by_host(layouts: Iterable[Layout]) -> dict[int, float]:
    """Seconds by host."""
    seconds: dict[int, float] = defaultdict(float)
    for layout in layouts:
        seconds[layout.host_id] += layout.expected_s
    return seconds


def _host_costs(campaign: Campaign, views: Iterable[LayoutPlan]) -> list[HostCost]:
    runs = (
        campaign.runs.filter(attempts__layout__phase=LayoutPhase.DRAFT)
        .order_by()
        .values("host")
        .annotate(
            seconds=Sum("expected_s"),
            bytes=Sum("expected_writes"),
            unknown=Count("pk", filter=Q(expected_writes=None)),
        )
    )
    building = _building_by_host(view.layout for view in views)
    return [
        HostCost(building[row["host"]], row["seconds"], row["bytes"] or 0, row["unknown"])
        for row in runs
    ]


def _mark_same_visits(views: Sequence[LayoutPlan]) -> list[LayoutPlan]:
    """Each later visit with the first one that it is like: its commands are shown on demand."""
    earlier: list[LayoutPlan] = []
    marked = []
    for view in views:
        if view.plan.commands and view.layout.visit > 1:
            like = next(
                (other.layout for other in earlier if other.comparison_key == view.comparison_key),
                None,
            )
            view = replace(view, same_as=like)
        earlier.append(view)
        marked.append(view)
    return marked


def _layout_plan(layout: Layout) -> LayoutPlan:
    if layout.plan is None:
        return LayoutPlan(layout, error=layout.plan_error, missing=_missing_programs(layout))
    try:
        plan = applied_part.from_json(layout.plan)
        facts = discovery.facts_of(layout.facts_planned) if layout.facts_planned else None
        planned_view = plan_view.view_plan(plan, facts)
    except AgentError as error:
        return LayoutPlan(layout, error=str(error))
    runs, times, count = _distinct_points(layout)
    return LayoutPlan(
        layout=layout,
        plan=planned_view,
        points=[
            _planned_point(run, planning.run_target(layout, run), layout, facts)
            for run in runs[:MAX_POINTS]
        ],
        hidden_points=max(0, len(runs) - MAX_POINTS),
        repeats=times,
        runs=count,
        error=layout.plan_error,
        missing=_missing_programs(layout),
        manual_steps=[
            wish.instruction for placed in plan.layers if (wish := stack.manual_task(placed))
        ],
    )


def _missing_programs(layout: Layout) -> MissingPrograms:
    """Programs of its layers and its runs' tools that the host lacked when it was last read."""
    if layout.planned_at is None:
        return NOTHING_MISSING
    loads = Run.objects.filter(attempts__layout=layout).order_by().distinct("workload")
    needs = [need for run in loads for need in registry.tool_programs(run.tool, run.options)]
    return package_installs.missing_programs(
        layout.host, [*stack.required_programs(specs(layout.stack)), *needs]
    )


def _distinct_points(layout: Layout) -> tuple[list[Run], int, int]:
    """One run for each point: the repeats run the same; how many those are, and how many runs in all."""
    rows = Run.objects.filter(attempts__layout=layout).select_related("workload")
    runs = list(rows.order_by("position"))
    first: dict[tuple[int, str], Run] = {}
    repeats: set[int] = set()
    for run in runs:
        first.setdefault((run.workload_id, matrix.describe_point(run.point)), run)
        repeats.add(run.repeat)
    distinct = sorted(
        first.values(),
        key=lambda run: (
            run.workload.name,
            run.workload_id,
            run.outstanding or 0,
            matrix.point_rank(run.point),
        ),
    )
    return distinct, len(repeats), len(runs)


def _planned_point(
    run: Run, target: Target, layout: Layout, facts: HostFacts | None
) -> PlannedPoint:
    point = matrix.describe_point(run.point)
    try:
        tool = registry.tool(run.tool)
        built = driver_options.build_options(tool.Options, run.options)
        job = tool.build_job(built, target)
        doubt = fits.unwritten(specs(layout.stack), run.tool, built)
        runs_as = _user_text(run.tool, built, target, layout, facts)
    except AgentError as error:
        return PlannedPoint(run.workload.name, point, "", (), str(error))
    files = tuple((name, of_file(content)) for name, content in job.inputs.items())
    return PlannedPoint(
        run.workload.name, point, format_command(job.argv), files, doubt=doubt, runs_as=runs_as
    )


def _user_text(
    kind: str, built: object, target: Target, layout: Layout, facts: HostFacts | None
) -> str:
    if facts is None:
        return ""
    if not facts.sudo or jobs.runs_as_login_user(layout):
        return f"Runs as {layout.host.user}."
    if why := jobs.why_root(kind, built, target, layout, facts):
        return f"Runs as root: {why}."
    what = "directory" if target.mount else "device"
    return f"Runs as a user of its own without privileges, who may open the layout's {what} and nothing of root's."
