"""A draft layout's plan as a person reads it before saying yes: picture, commands, what is lost, what will run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from django.db.models import Sum

from agents import options as driver_options
from agents import registry
from agents.contracts import AgentError, Target
from agents.packages import Missings
from agents.plans import as_json, fits, stack
from agents.plans.chain import LayerSpec, specs
from agents.plans.destroyed import Destroyed
from agents.quote import shown
from agents.texts.plaintext import of_file
from benchlab.campaigns import points
from benchlab.campaigns.models import Campaign, Run
from benchlab.engine.checks import planning
from benchlab.hosts import services as hosts
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase
from benchlab.topologies import planned

MOST_POINTS = 60


@dataclass(frozen=True, slots=True)
class Planned:
    """What one point will run."""

    workload: str
    point: str
    argv: str
    files: tuple[tuple[str, str], ...]
    error: str = ""
    doubt: str = ""  # what speaks against the figures that it will give


NOTHING_MISSING = Missings((), ())


@dataclass(frozen=True, slots=True)
class View:
    layout: Layout
    plan: planned.Planned = field(default_factory=planned.Planned)
    points: list[Planned] = field(default_factory=list)
    points_left: int = 0
    times: int = 0  # how often each point runs on it
    error: str = ""
    asks: list[str] = field(default_factory=list)  # what a person must do, in order
    missing: Missings = NOTHING_MISSING
    like: Layout | None = None  # an earlier visit with the same commands, but for the names

    @property
    def shape(self) -> tuple[int, int, list[str]]:
        """What earlier visits of the same set-up have in common with it: without names, and the UUIDs made of them."""
        texts = [
            planned.UUID.sub("", one.text.replace(self.layout.name, ""))
            for one in self.plan.commands
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
class Plans:
    """`measuring`: seconds that their runs on the busiest host should take. `added`: they are for added repeats."""

    views: list[View]
    measuring: float = 0.0
    added: bool = False

    @property
    def pending(self) -> int:
        return sum(view.pending for view in self.views)

    @property
    def visits(self) -> int:
        return max((view.layout.visit for view in self.views), default=1)

    @property
    def building(self) -> float:
        """Seconds that building these layouts, and taking them down, should take on the busiest host."""
        return _busiest(view.layout for view in self.views)

    @property
    def again(self) -> float:
        """What of it the visits after the first cost."""
        return _busiest(view.layout for view in self.views if view.layout.visit > 1)

    @property
    def ready(self) -> bool:
        return not self.pending and not any(view.error for view in self.views)

    @property
    def lost(self) -> list[tuple[str, Destroyed]]:
        """Host's name and disk, of each that is destroyed; a disk that several layouts use comes as often."""
        return [
            (view.layout.host.name, disk) for view in self.views for disk in view.plan.destroyed
        ]

    @property
    def destroyed(self) -> int:
        return len({(host, disk.identity) for host, disk in self.lost})

    @property
    def phrase(self) -> str:
        """What a person must type before all this may start; "" when no disk is touched."""
        return planned.phrase(self.lost)


def of(campaign: Campaign) -> Plans:
    """Every layout whose plan nobody has confirmed yet."""
    drafts = campaign.layouts.filter(phase=LayoutPhase.DRAFT)
    rows = drafts.select_related("host", "topology", "facts_planned").order_by("position", "pk")
    views = _alike([_view(row) for row in rows])
    added = any(view.layout.visit > campaign.visits for view in views)
    told = added or campaign.visits > 1
    return Plans(views, _measuring(campaign) if told else 0.0, added)


def _busiest(layouts: Iterable[Layout]) -> float:
    found: dict[int, float] = defaultdict(float)
    for layout in layouts:
        found[layout.host_id] += layout.expected_s
    return max(found.values(), default=0.0)


def _measuring(campaign: Campaign) -> float:
    runs = (
        campaign.runs.filter(attempts__layout__phase=LayoutPhase.DRAFT)
        .order_by()
        .values("host")
        .annotate(seconds=Sum("expected_s"))
    )
    return max((row["seconds"] for row in runs), default=0.0)


def _alike(views: Sequence[View]) -> list[View]:
    """Each later visit with the first one that it is like: its commands are shown on demand."""
    seen: list[View] = []
    found = []
    for view in views:
        if view.plan.commands and view.layout.visit > 1:
            like = next((one.layout for one in seen if one.shape == view.shape), None)
            view = replace(view, like=like)
        seen.append(view)
        found.append(view)
    return found


def _view(layout: Layout) -> View:
    if layout.plan is None:
        return View(layout, error=layout.plan_error, missing=_missing(layout))
    try:
        plan = as_json.from_json(layout.plan)
        facts = hosts.facts_of(layout.facts_planned) if layout.facts_planned else None
        told = planned.read(plan, facts)
    except AgentError as error:
        return View(layout, error=str(error))
    runs, times = _points(layout)
    return View(
        layout=layout,
        plan=told,
        points=[
            _planned(run, planning.target_of(layout, run), specs(layout.stack))
            for run in runs[:MOST_POINTS]
        ],
        points_left=max(0, len(runs) - MOST_POINTS),
        times=times,
        error=layout.plan_error,
        missing=_missing(layout),
        asks=[wish.says for placed in plan.layers if (wish := stack.asked(placed))],
    )


def _missing(layout: Layout) -> Missings:
    """Programs of its layers and its runs' tools that the host lacked when it was last read."""
    if layout.planned_at is None:
        return NOTHING_MISSING
    loads = Run.objects.filter(attempts__layout=layout).order_by().distinct("workload")
    needs = [need for run in loads for need in registry.tool_needs(run.tool, run.options)]
    return hosts.missing(layout.host, [*stack.needs(specs(layout.stack)), *needs])


def _points(layout: Layout) -> tuple[list[Run], int]:
    """One run for each point: the repeats run the same; and how many those are."""
    runs = Run.objects.filter(attempts__layout=layout).select_related("workload")
    first: dict[tuple[int, str], Run] = {}
    repeats: set[int] = set()
    for run in runs.order_by("position"):
        first.setdefault((run.workload_id, points.words(run.point)), run)
        repeats.add(run.repeat)
    found = sorted(
        first.values(),
        key=lambda run: (
            run.workload.name,
            run.workload_id,
            run.outstanding or 0,
            points.rank(run.point),
        ),
    )
    return found, len(repeats)


def _planned(run: Run, target: Target, stack_of: Sequence[LayerSpec]) -> Planned:
    point = points.words(run.point)
    try:
        tool = registry.tool(run.tool)
        built = driver_options.build(tool.Options, run.options)
        job = tool.job(built, target)
        doubt = fits.unwritten(stack_of, run.tool, built)
    except AgentError as error:
        return Planned(run.workload.name, point, "", (), str(error))
    files = _files(job.inputs.items())
    return Planned(run.workload.name, point, shown(job.argv), files, doubt=doubt)


def _files(inputs: Iterable[tuple[str, bytes]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, of_file(content)) for name, content in inputs)
