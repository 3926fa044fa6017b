# SPDX-License-Identifier: Apache-2.0
"""Evidence of stored attempts: six queries for ten of them, and what is large is read once for all of them.

Series come in binary, and the times that those of one sampler share are read once of each attempt: as rows of a model a
thousand runs took twice as long.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from django.db import connection
from psycopg.sql import SQL, Literal

from agents import options
from agents.contracts import AgentError, OptionsError, Target
from agents.drivers import registry
from agents.plans import applied_part, chain, fits
from agents.plans.stack import BELOW, Placed, StackPlan
from benchlab.analysis.evidence import Access, Device, Figure, Layer, Run, Track, Window
from benchlab.campaigns.models import Campaign
from benchlab.findings import earlier_writes
from benchlab.hosts.models import Device as Disk
from benchlab.hosts.models import FactSnapshot
from benchlab.runs import attempt_meta
from benchlab.runs.attempt_meta import DISKS, RATED, READERS
from benchlab.runs.models import Attempt, Layout, Measurement
from benchlab.runs.strips import parse_float_array
from benchlab.topologies import moments

# what tells how busy a CPU or a disk was
BUSY = ("cpu.idle", "cpu.iowait", "util")
# of series that PostgreSQL sends at a time
ROWS = 50
# attempts whose series are in memory at a time: an hour's of 16 disks takes 40 MB
AT_ONCE = 10


def read_runs(attempts: Sequence[int], *, of_disks: bool = True) -> Iterator[Run]:
    """Yield the runs of these attempts in their order, without those that do not exist.

    Without `of_disks` only the tracks of the whole host and those that tell how busy it was are read, since all runs of
    a workload are in memory together.
    """
    shared = _SharedRows()
    for begin in range(0, len(attempts), AT_ONCE):
        yield from _read_batch(attempts[begin : begin + AT_ONCE], shared, of_disks)


# op/s and B/s
_Rated = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class _LayoutState:
    """A layout at one moment."""

    layers: tuple[Layer, ...]
    # None: its plan cannot be read
    target: Target | None
    # of its disks, by name
    identities: Mapping[str, str] = field(default_factory=dict)
    # by name, as the source states
    rated: Mapping[str, _Rated] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Host:
    """Facts gathered on the host before the run. `devices` has every block device, by its kernel name."""

    devices: Mapping[str, Device] = field(default_factory=dict)
    memory: int | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _SharedRows:
    """Rows that many attempts have in common."""

    layouts: dict[int, Layout] = field(default_factory=dict)
    facts: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    plans: dict[int, StackPlan | None] = field(default_factory=dict)
    layout_states: dict[tuple[int, str, str], _LayoutState] = field(default_factory=dict)
    hosts: dict[tuple[int, str], _Host] = field(default_factory=dict)
    # by host and identity
    rated: dict[tuple[int, str], _Rated] = field(default_factory=dict)

    def load(self, rows: Iterable[Attempt]) -> None:
        """Read the layouts and facts of these attempts that are not read yet."""
        missing_ids = {row.layout_id for row in rows} - self.layouts.keys()
        layout_query = Layout.objects.only("stack", "plan", "facts_ready", "host")
        new = layout_query.in_bulk(missing_ids) if missing_ids else {}
        self.layouts |= new
        if new:
            self.rated |= _ratings({layout.host_id for layout in new.values()})
        ids = {facts_id for row in rows if (facts_id := self._facts_of(row))} - self.facts.keys()
        if ids:
            snapshots = FactSnapshot.objects.filter(pk__in=ids).values_list("pk", "facts")
            self.facts |= dict(snapshots)

    def _facts_of(self, row: Attempt) -> int | None:
        return row.facts_id or self.layouts[row.layout_id].facts_ready_id

    def layout_state(self, row: Attempt, stage: str) -> _LayoutState:
        # Each result of one import may name other disks.
        disks_text = json.dumps([row.meta.get(DISKS), row.meta.get(RATED)])
        key = row.layout_id, stage, disks_text
        if key not in self.layout_states:
            self.layout_states[key] = _read_layout_state(
                self.layouts[row.layout_id], self._stack_plan(row.layout_id), stage, row.meta
            )
        return self.layout_states[key]

    def _stack_plan(self, layout: int) -> StackPlan | None:
        if layout not in self.plans:
            try:
                self.plans[layout] = applied_part.from_json(self.layouts[layout].plan or {})
            except AgentError:
                # made by another version, or of a result from elsewhere
                self.plans[layout] = None
        return self.plans[layout]

    def host_of(self, row: Attempt) -> _Host:
        facts = self._facts_of(row)
        if facts is None or facts not in self.facts:
            return _Host()
        key = facts, json.dumps(row.meta.get(attempt_meta.QUEUES))
        if key not in self.hosts:
            self.hosts[key] = _host_facts(
                attempt_meta.facts_during_attempt(self.facts[facts], row.meta)
            )
        return self.hosts[key]


def _read_batch(attempts: Sequence[int], shared: _SharedRows, of_disks: bool) -> Iterator[Run]:
    rows = Attempt.objects.filter(pk__in=attempts).select_related("run__campaign").in_bulk()
    shared.load(rows.values())
    printed = _printed_figures(rows)
    series = _stored_series(rows, of_disks)
    runs = [
        _evidence_run(rows[pk], shared, printed[pk], series[pk]) for pk in attempts if pk in rows
    ]
    doubted = {rows[stored_run.attempt].layout_id for stored_run in runs if stored_run.unwritten}
    writes = earlier_writes.writes_by_layout(doubted) if doubted else {}
    for stored_run in runs:
        row = rows[stored_run.attempt]
        covered = stored_run.unwritten and earlier_writes.cover_read(
            row, stored_run.access.size, writes.get(row.layout_id, ())
        )
        yield dataclasses.replace(stored_run, unwritten="") if covered else stored_run


def _evidence_run(
    row: Attempt, shared: _SharedRows, printed: _Printed, series: Sequence[_Series]
) -> Run:
    run, built = row.run, shared.layout_state(row, row.run.stage)
    ours = run.campaign.source == Campaign.Source.MEASURED
    access, unwritten = _access_and_unwritten(
        row, built.target, shared.layouts[row.layout_id], ours
    )
    host = shared.host_of(row)
    windows = tuple(
        Window(window["name"], window["start"], window["end"], window["measured"])
        for window in row.windows
    )
    return Run(
        tool=run.tool,
        access=access,
        options=run.options,
        figures=printed.figures,
        notes=printed.notes,
        labelled=tuple(printed.labelled),
        windows=windows,
        tracks=tuple(_tracks(row, series, windows, built.layers)),
        layers=built.layers,
        devices=_rated_devices(built, host, shared.rated, run.host_id),
        memory=host.memory,
        conditions=host.conditions,
        meta=row.meta,
        requested=("scheduler",) if run.scheduler else (),
        degraded=tuple(fault["says"] for fault in row.degraded),
        unwritten=unwritten,
        stage=run.stage,
        ours=ours,
        run=row.run_id,
        attempt=row.pk,
    )


@dataclass(slots=True)
class _Printed:
    """Figures and notes that the tool of one attempt printed."""

    figures: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    labelled: list[Figure] = field(default_factory=list)


def _rated_devices(
    built: _LayoutState, host: _Host, rated: Mapping[tuple[int, str], _Rated], pk: int
) -> Mapping[str, Device]:
    """Return the layout's devices, with the ratings that a person or the source of the result gave."""
    devices = {}
    for name in dict.fromkeys(
        n for layer in built.layers for each in layer.uses.values() for n in each
    ):
        rating = rated.get((pk, built.identities.get(name, ""))) or built.rated.get(name)
        if name in host.devices or rating:
            iops, bandwidth = rating or (None, None)
            devices[name] = dataclasses.replace(
                host.devices.get(name) or Device(name), rated_iops=iops, rated_bandwidth=bandwidth
            )
    return devices


def _ratings(hosts: Collection[int]) -> dict[tuple[int, str], _Rated]:
    rows = Disk.objects.filter(host__in=hosts).exclude(rated_iops=None, rated_bandwidth=None)
    ratings = rows.values_list("host", "identity", "rated_iops", "rated_bandwidth")
    return {(host, identity): (iops, bandwidth) for host, identity, iops, bandwidth in ratings}


def _printed_figures(attempts: Collection[int]) -> Mapping[int, _Printed]:
    printed: dict[int, _Printed] = defaultdict(_Printed)
    rows = Measurement.objects.filter(attempt__in=attempts, value__isnull=False).order_by("pk")
    columns = rows.values_list("attempt", "name", "value", "unit", "labels", "note")
    for attempt, name, value, unit, labels, note in columns.iterator(chunk_size=10_000):
        assert value is not None
        if labels:
            printed[attempt].labelled.append(Figure(name, value, unit, labels))
            continue
        printed[attempt].figures[name] = value
        if note:
            printed[attempt].notes[name] = note
    return printed


# by which sampler
_Series = tuple[str, Track]


def _stored_series(attempts: Collection[int], of_disks: bool) -> Mapping[int, list[_Series]]:
    # Of each CPU and disk, too: one may be full.
    some = SQL("" if of_disks else " AND (device = '' OR metric = ANY({}))")
    statement = SQL(
        "SELECT attempt_id, sampler, device, metric, unit, array_send(times), array_send(values) FROM runs_series"
        " WHERE attempt_id = ANY({}){} ORDER BY id"
    ).format(Literal(list(attempts)), some.format(Literal(list(BUSY))))
    series: dict[int, list[_Series]] = defaultdict(list)
    clocks: dict[tuple[int, bytes], tuple[float, ...]] = {}
    connection.ensure_connection()
    with psycopg.Cursor(connection.connection) as cursor:
        for attempt, sampler, device, metric, unit, times, values in cursor.stream(
            statement, binary=True, size=ROWS
        ):
            clock = clocks.get((attempt, times)) or tuple(parse_float_array(times).tolist())
            clocks[attempt, times] = clock
            track = Track(device, metric, unit, clock, tuple(parse_float_array(values).tolist()))
            series[attempt].append((sampler, track))
    return series


def _tracks(
    row: Attempt, series: Iterable[_Series], windows: Sequence[Window], layers: Iterable[Layer]
) -> Iterator[Track]:
    """A tool's own series stand for the whole host, as far as they are on the samples' clock.

    The busy time of other devices than the layout's disks is left out.
    """
    disks = {name for layer in layers for names in layer.uses.values() for name in names}
    placed = sum(window.measured for window in windows) == 1 or READERS in row.meta
    samplers = registry.all_samplers()
    for sampler, track in series:
        other = track.metric == "util" and track.device not in disks
        if not other and (track.device or sampler in samplers or placed):
            yield track


def tool_access(row: Attempt) -> Access:
    """Access of its tool to the storage, as far as that is known without its layout. Of a row with its run's campaign
    and its layout.
    """
    ours = row.run.campaign.source == Campaign.Source.MEASURED
    return _access_and_unwritten(row, None, row.layout, ours)[0]


def _access_and_unwritten(
    row: Attempt, target: Target | None, layout: Layout, ours: bool
) -> tuple[Access, str]:
    """Access of its tool to the storage, and why it may have read what was never written."""
    run = row.run
    try:
        kind, option_values = run.tool, run.options
        of_tool = registry.tool(kind).Options
        stated = option_values if ours else options.accepted_values(of_tool, option_values)
        built = options.build_options(of_tool, stated)
        pattern = registry.access_pattern(kind, built, None if ours else stated.keys())
        unwritten = fits.unwritten(chain.specs(layout.stack), kind, built) if ours else ""
        size = registry.required_bytes(kind, built, target) if ours and target is not None else 0
    except AgentError:
        # a tool or an option that no longer exists, or that was never ours
        return Access(outstanding=run.outstanding), ""
    access = Access(
        **{field.name: getattr(pattern, field.name) for field in dataclasses.fields(Access)}
        | {
            "size": pattern.size or size or None,
            "outstanding": run.outstanding or pattern.outstanding,
        }
    )
    if target is not None and not target.mount and access.writes is False:
        # It reads data that somebody else wrote.
        access = dataclasses.replace(access, compressible=None)
    return access, unwritten


def _read_layout_state(
    layout: Layout, plan: StackPlan | None, code: str, meta: Mapping[str, Any]
) -> _LayoutState:
    """Its layers at that moment, by the plan; of a result from elsewhere, as somebody described them, on the disks
    that its source tells."""
    if plan is None:
        specs, disks = chain.specs(layout.stack), meta.get(DISKS, {})
        layers = zip(specs, chain.assign_source_disks(specs, disks), strict=True)
        return _LayoutState(
            tuple(Layer(spec.kind, spec.options, uses) for spec, uses in layers),
            None,
            rated={
                name: (most.get("iops"), most.get("bandwidth"))
                for role, most in meta.get(RATED, {}).items()
                for name in disks.get(role, ())
            },
        )
    moment = moments.parse_moment(code)
    stage = min(moment.stage, len(plan.stages))
    placed = plan.layers_after(stage)
    claims = (
        claim for layer in placed for device in layer.target.devices.values() for claim in device
    )
    return _LayoutState(
        tuple(_layer(layer) for layer in placed),
        plan.target_at(stage, moment.growing),
        {_kernel_name(claim.node): claim.identity for claim in claims},
    )


def _layer(placed: Placed) -> Layer:
    uses = {
        use: tuple(_kernel_name(claim.node) for claim in claims)
        for use, claims in placed.target.devices.items()
        if use != BELOW and claims
    }
    return Layer(placed.spec.kind, _options_with_defaults(placed.spec), uses)


def _options_with_defaults(spec: chain.LayerSpec) -> Mapping[str, Any]:
    """Return the layer's options with the defaults of its driver, with which it was built."""
    try:
        kind = registry.layer(spec.kind).Options
        values: Mapping[str, Any] = options.dump(options.build_options(kind, spec.options))
        return values
    except OptionsError:
        # The driver has changed since.
        return spec.options


def _kernel_name(node: str) -> str:
    """The kernel's: it writes cciss!c0d0 for /dev/cciss/c0d0."""
    return node.removeprefix("/dev/").replace("/", "!")


def _host_facts(facts: Mapping[str, Any]) -> _Host:
    host_facts = {"kernel": str(facts.get("kernel") or "")}
    return _Host(
        {device["name"]: _evidence_device(device) for device in facts.get("devices", ())},
        facts.get("memory") or None,
        {name: words for name, words in host_facts.items() if words},
    )


def _evidence_device(facts: Mapping[str, Any]) -> Device:
    return Device(
        facts["name"],
        size=facts.get("size") or None,
        rotational=facts.get("rotational"),
        scheduler=facts.get("scheduler") or "",
        write_cache=(facts.get("queue") or {}).get("write_cache", ""),
        firmware=facts.get("firmware") or "",
        model=facts.get("model") or "",
        logical_block=facts.get("logical_sector") or None,
        physical_block=facts.get("physical_sector") or None,
        link=facts.get("link_bandwidth") or None,
    )
