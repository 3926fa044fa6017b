"""From a spool directory to artifacts, and from artifacts to figures. The second half can be done again at any time."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from agents import options, registry
from agents.contracts import Metric, ParseError, Reason, Timing, Watch, Window
from agents.contracts import Series as SeriesData
from agents.jobs import job
from agents.texts.found import Found
from benchlab.analysis.findings.clock_jumped import STEP
from benchlab.runs import bulk, moves, storable, strips
from benchlab.runs.artifact_reader import Outputs
from benchlab.runs.models import Artifact, Attempt, LiveChunk, Measurement, Series
from benchlab.runs.states import AttemptPhase, Outcome
from benchlab.runs.verdict import Verdict
from benchlab.workers import messages

log = logging.getLogger(__name__)

SAMPLES, LOG = "samples", "runner.log"  # artifacts beside what the tool wrote
# In the meta of an attempt that was measured elsewhere: [[artifact, kind in agents/readers/, name of its file], …];
# of one point of a sweep the labels that tell it apart come behind: {"outstanding": "4"}
READERS = "readers"
# Likewise, where the source tells them: {role: kernel names of the disks that had it, in order}
DISKS = "disks"
# Likewise what they are rated for: {role: {"iops": op/s, "bandwidth": B/s}}, either of them
RATED = "rated"
# In the meta of one whose samples cannot all be read: {sampler, or "samples" where it is all of them: why}
NOT_SAMPLED = "not_sampled"
# In the meta of one whose output was too large to be fetched: in words, what stays where on its host
ON_HOST = "on_host"
# In the meta of one whose spool directory is gone from its host, with all that could run in it
REMOVED = "removed"
# Asked of a worker for each result: a step has no time for it
FIND = "benchlab.findings.tasks.find"
WHEN = "when it measured"  # among what could not be read: the times that the tool told


def sampled(family: str) -> tuple[str | Watch, ...]:
    """The files that hostside/sampler.sh reads on every tick, and the commands it runs on that family of hosts."""
    samplers = registry.all_samplers().values()
    watches = [watch for sampler in samplers for watch in sampler.WATCHES]
    return (
        *dict.fromkeys(name for sampler in samplers for name in sampler.FILES),
        *dict.fromkeys(w for w in watches if not w.families or family in w.families),
    )


Told = tuple[str, SeriesData]  # sampler, tool or reader, and what it tells


@dataclass(frozen=True, slots=True)
class Figures:
    """What the artifacts of an attempt say; `errors`: what could not be read, in words.

    `doubts` are samples that could not be read, by sampler: the tool's figures stand all the same.
    """

    metrics: list[Metric]
    series: list[Told]
    errors: list[str]
    doubts: Mapping[str, str] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)


def store(
    attempt: Attempt, fetched: job.Fetched, large: Sequence[Artifact] = (), over: str = ""
) -> None:
    """Keep the raw output byte for byte, and what the runner recorded of it. `large`: what came in pieces.

    `over`: why the attempt, which was running, is to be collected from now on. Raises Moved, and keeps nothing then.
    """
    attempt.meta |= dataclasses.asdict(fetched.meta)  # what was noted at its start stays
    attempt.exit_code = fetched.meta.exit_code
    recorded = {"meta": attempt.meta, "exit_code": attempt.exit_code}
    if over:
        moves.attempt(
            attempt,
            AttemptPhase.COLLECTING,
            over,
            also=lambda: _keep_output(attempt, fetched, large),
            seen_at=attempt.seen_at,
            **recorded,
        )
        return
    with transaction.atomic():
        _keep_output(attempt, fetched, large)
        attempt.save(update_fields=list(recorded))


def _keep_output(attempt: Attempt, fetched: job.Fetched, large: Sequence[Artifact]) -> None:
    files = {**fetched.files, SAMPLES: fetched.samples}
    if fetched.log:
        files[LOG] = fetched.log
    came = {row.name for row in large}
    keep(attempt, {name: raw for name, raw in files.items() if name not in came})
    Artifact.objects.bulk_create(large)
    LiveChunk.objects.filter(attempt=attempt).delete()


def keep(attempt: Attempt, files: Mapping[str, bytes]) -> None:
    """As artifacts, with their hashes."""
    Artifact.objects.bulk_create(
        Artifact(
            attempt=attempt,
            name=name,
            content=raw,
            size=len(raw),
            sha256=hashlib.sha256(raw).hexdigest(),
        )
        for name, raw in files.items()
    )


def conclude(
    attempt: Attempt, verdict: Verdict, files: Outputs | None = None
) -> tuple[Verdict, Figures]:
    """How the attempt ended and its figures, now that its output is read; nothing is stored. See `end`.

    Of a tool that gave up, what it had printed is kept; it ends as failed, and says so. `files`: its artifacts, where
    somebody has them.
    """
    if _gave_up(attempt, verdict.reason):
        figures = read(attempt, partly=True, files=files)
        return dataclasses.replace(verdict, text=verdict.text + _kept_words(figures)), figures
    figures = read(attempt, with_metrics=verdict.outcome == Outcome.SUCCEEDED, files=files)
    if verdict.outcome != Outcome.SUCCEEDED:
        return verdict, figures
    if figures.errors:
        said = "; ".join(figures.errors)
        return Verdict(Outcome.FAILED, Reason.PARSE_FAILED, said), figures
    return _io_errors(figures) or verdict, figures


def end(attempt: Attempt, verdict: Verdict, figures: Figures | None = None) -> None:
    """The attempt is over, with its figures where it has any: all of it is stored, or nothing. Raises Moved."""
    if figures is not None:
        _note(attempt, figures)
    moves.attempt(
        attempt,
        AttemptPhase.DONE,
        verdict.text,
        also=None if figures is None else lambda: put(attempt, figures),
        outcome=verdict.outcome,
        reason=verdict.reason,
        reason_text=verdict.text,
        meta=attempt.meta,
        windows=attempt.windows,
    )
    if verdict.outcome == Outcome.SUCCEEDED:
        messages.after_commit(FIND, [attempt.pk])


def _gave_up(attempt: Attempt, reason: str) -> bool:
    """Whether the tool ended by itself and said that it failed."""
    return reason == Reason.TOOL_FAILED and bool(attempt.exit_code)


def _kept_words(figures: Figures) -> str:
    told = sum(one.value is not None for one in figures.metrics)
    if not told:
        return ""
    what = f"figure{'s' * (told > 1)} that it had printed {'are' if told > 1 else 'is'}"
    return (
        f"\n{told} {what} kept, of a run that failed: no chart has {'them' if told > 1 else 'it'}."
    )


def _io_errors(figures: Figures) -> Verdict | None:
    failed = next((m for m in figures.metrics if m.name == "errors" and m.value), None)
    if failed is None:
        return None
    said = f"{failed.value:g} I/O errors. {failed.note}".strip()
    return Verdict(Outcome.FAILED, Reason.TOOL_FAILED, said)


def read(
    attempt: Attempt,
    with_metrics: bool = True,
    partly: bool = False,
    files: Outputs | None = None,
) -> Figures:
    """Parse the stored artifacts. A run that was cut off has no figures worth keeping, its devices do.

    `partly`: its tool gave up, and as much as can be read of what it printed is enough.
    """
    files = Outputs(attempt) if files is None else files
    if readers := attempt.meta.get(READERS):
        return _elsewhere(files, readers)
    sampled = _sampled(files)
    told = Figures([], [], [])
    if with_metrics:
        told = _partly(attempt, files) if partly else _told(attempt, files, sampled.began)
    series = told.series + sampled.series
    return Figures(
        told.metrics, series, told.errors, {**told.doubts, **sampled.doubts}, told.windows
    )


def _told(attempt: Attempt, files: Outputs, began: float | None) -> Figures:
    """By the tool itself, its times brought to the clock of the samples, which began then."""
    kind = attempt.run.tool
    tool, recording = registry.tool(kind), registry.recording(kind)
    metrics: list[Metric] = []
    series: list[Told] = []
    windows: list[Window] = []
    doubts: dict[str, str] = {}
    try:
        built = options.build(tool.Options, attempt.run.options)
        metrics = storable.metrics(tool.parse(files, built))
        windows, doubts = _windows(attempt, files, built, began)
        if recording is not None and not (large := _too_large(files, kind)):
            series = storable.series((kind, one) for one in recording.series(files, built))
        elif recording is not None:
            doubts = doubts | large
    except ParseError as error:
        return Figures(metrics, [], [f"{kind}: {error}"], doubts, windows)
    return Figures(metrics, _placed(series, windows), [], doubts, windows)


def _partly(attempt: Attempt, files: Outputs) -> Figures:
    """Of a tool that gave up: no window of it is whole, and a parser that stumbles over half an output is no news."""
    kind = attempt.run.tool
    tool, salvaging = registry.tool(kind), registry.salvaging(kind)
    parse = tool.parse if salvaging is None else salvaging.salvage
    try:
        built = options.build(tool.Options, attempt.run.options)
        return Figures(storable.metrics(parse(files, built)), [], [])
    except ParseError:
        return Figures([], [], [])
    except Exception:  # how the tool ended must not be lost to it
        log.exception("attempt %s", attempt.pk)
        return Figures([], [], [])


def _windows(
    attempt: Attempt, files: Outputs, built: object, began: float | None
) -> tuple[list[Window], dict[str, str]]:
    """What the tool did when, since `began`; without samples since the job began. And why that cannot be read."""
    marking, timing = registry.marking(attempt.run.tool), _timing(attempt.meta)
    if marking is None or timing is None:
        return [], {}
    try:
        found = marking.windows(files, built, timing)
    except ParseError as error:
        return [], {WHEN: str(error)}
    late = timing.started - (timing.started if began is None else began)
    return [dataclasses.replace(w, start=w.start + late, end=w.end + late) for w in found], {}


def _timing(meta: Mapping[str, Any]) -> Timing | None:
    """None where the runner did not see both ends of the job."""
    started, ended, epoch = (meta.get(k) for k in ("started_mono", "ended_mono", "started_at"))
    if started is None or ended is None:
        return None
    return Timing(started, ended, epoch if abs(meta.get("clock_step") or 0) < STEP else None)


def _placed(series: list[Told], windows: Sequence[Window]) -> list[Told]:
    """A tool's series count from the beginning of what it measured; where that is not told, so they stay."""
    measured = [one for one in windows if one.measured]
    if len(measured) != 1:
        return series
    late = measured[0].start
    return [
        (kind, dataclasses.replace(one, times=tuple(at + late for at in one.times)))
        for kind, one in series
    ]


def _too_large(files: Outputs, tool: str) -> dict[str, str]:
    """Logs that would fill the memory have no series; the tool's figures stand without them."""
    try:
        files.check_all(but=SAMPLES)
    except ParseError as error:
        return {tool: str(error)}
    return {}


@dataclass(frozen=True, slots=True)
class _Sampled:
    """What each sampler can read, and why the others cannot: one costs its own series, never the run."""

    series: list[Told]
    doubts: Mapping[str, str]
    began: float | None  # the first frame: from there its times count


def _sampled(files: Outputs) -> _Sampled:
    found: list[Told] = []
    doubts: dict[str, str] = {}
    try:
        frames = job.frames(files.get(SAMPLES, b""))
    except ParseError as error:
        return _Sampled([], {SAMPLES: str(error)}, None)
    for kind, sampler in registry.all_samplers().items():
        try:
            found += storable.series((kind, one) for one in sampler.series(frames))
        except ParseError as error:
            doubts[kind] = str(error)
    return _Sampled(found, doubts, frames[0].at if frames else None)


def _elsewhere(files: Mapping[str, bytes], readers: Sequence[Sequence[Any]]) -> Figures:
    """Of results measured elsewhere: the first artifact has the metrics, each has its series."""
    metrics: list[Metric] = []
    series: list[Told] = []
    errors: list[str] = []
    for number, (artifact, kind, name, *only) in enumerate(readers):
        found = registry.all_readers()[kind].find(files[artifact].decode(), name)
        if len(found) != 1 or found[0].trouble:
            said = found[0].trouble if len(found) == 1 else f"{len(found)} results, not one"
            errors.append(f"{artifact}: {said}")
            continue
        if found[0].needs:
            errors.append(f"{artifact}: {'; '.join(found[0].notes)}")
            continue
        try:
            if number == 0:
                metrics += storable.metrics(_of_point(found[0], artifact, only[0] if only else {}))
            series += storable.series((kind, one) for one in found[0].series)
        except ParseError as error:
            errors.append(f"{artifact}: {error}")
    return Figures(metrics, series, errors)


def _of_point(found: Found, artifact: str, only: Mapping[str, str]) -> list[Metric]:
    """Its metrics, or those of one point of its sweep, without the labels that tell it apart."""
    return [
        dataclasses.replace(
            one,
            output=artifact,
            labels={name: value for name, value in one.labels.items() if name not in only},
        )
        for one in found.metrics
        if only.items() <= one.labels.items()
    ]


def reparse(attempt: Attempt) -> str:
    """Figures anew from the artifacts. Returns what could not be read; then the old figures stay as they are."""
    unread = _unread(attempt)
    if _gave_up(attempt, attempt.reason):
        return _reparse_partly(attempt)
    measured = attempt.outcome == Outcome.SUCCEEDED or unread or attempt.measurements.exists()
    figures = read(attempt, with_metrics=measured)
    if figures.errors:
        return "; ".join(figures.errors)
    with transaction.atomic():
        replace(attempt, figures)
        if unread:
            verdict = _io_errors(figures) or Verdict(Outcome.SUCCEEDED)
            attempt.outcome, attempt.reason = verdict.outcome, verdict.reason
            attempt.reason_text = verdict.text
            attempt.save(update_fields=["outcome", "reason", "reason_text"])
    return ""


def _reparse_partly(attempt: Attempt) -> str:
    figures = read(attempt, partly=True)
    if not figures.metrics and attempt.measurements.exists():
        return "nothing of what its tool had printed can be read any more"
    replace(attempt, figures)
    return ""


def _unread(attempt: Attempt) -> bool:
    """Whether the tool did its part, and a parser of ours failed: in words, or by a crash."""
    if attempt.reason != Reason.INTERNAL:
        return attempt.reason == Reason.PARSE_FAILED
    through = attempt.meta.get("state") == job.State.EXITED and attempt.exit_code == 0
    during = attempt.meta.get("during")
    return through and (during is None or bool(during.get("end")))  # else it measured two states


@transaction.atomic
def replace(attempt: Attempt, figures: Figures) -> None:
    """Put the figures in place of those stored before; the artifacts are untouched.

    What was sampled and can be read no more stays as it was read before.
    """
    samplers = registry.all_samplers() if SAMPLES in figures.doubts else figures.doubts
    attempt.measurements.all().delete()
    attempt.series.exclude(sampler__in=list(samplers)).delete()
    attempt.strips.all().delete()
    put(attempt, figures)
    _note(attempt, figures)
    attempt.save(update_fields=["windows", "meta"])


def _note(attempt: Attempt, figures: Figures) -> None:
    """What its own row says of them; it is not saved yet."""
    attempt.windows = [dataclasses.asdict(one) for one in figures.windows]
    attempt.meta.pop(NOT_SAMPLED, None)
    if figures.doubts:
        attempt.meta[NOT_SAMPLED] = dict(figures.doubts)


def put(attempt: Attempt, figures: Figures) -> None:
    """Store the figures of an attempt that has none."""
    bulk.copy(
        Measurement,
        ("attempt", "name", "value", "unit", "labels", "note", "line", "output"),
        [
            (
                attempt.pk,
                m.name,
                m.value,
                str(m.unit),
                json.dumps(dict(m.labels)),
                m.note,
                m.line,
                m.output,
            )
            for m in figures.metrics
        ],
    )
    bulk.copy(
        Series,
        ("attempt", "sampler", "device", "metric", "unit", "times", "values"),
        [
            (
                attempt.pk,
                kind,
                one.device,
                one.metric,
                str(one.unit),
                bulk.array(one.times),
                bulk.array(one.values),
            )
            for kind, one in figures.series
        ],
    )
    strips.put(attempt, (strips.of(kind, one) for kind, one in figures.series))
