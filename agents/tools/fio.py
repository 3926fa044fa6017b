# SPDX-License-Identifier: Apache-2.0
"""fio: random and sequential I/O at any depth; json+ gives every latency as histogram bins.

The job file is written by us (`fio_jobfile`), read back by `fio_json` (or `fio_text`, for imports) and summed up in
`_fio_metrics`. On a mounted target fio lays its file out first, which takes time and writes `size` once more; the
file is removed at the end. A raw volume is used from its start, up to `size`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from agents.contracts import (
    Access,
    Histogram,
    Job,
    Metric,
    Need,
    OptionsError,
    ParseError,
    SameWork,
    Series,
    Target,
    Timing,
    Unit,
    Window,
)
from agents.outputs import fio_jobfile as jobfile
from agents.outputs import fio_json, fio_log, fio_series, fio_terse, fio_text
from agents.outputs.fio_model import FioJob
from agents.tools import _fio_access, _fio_metrics, _fio_options
from agents.tools._fio_options import Options, sections
from agents.tools._scripts import lines_of

LABEL = "fio"
NO_FLUSHES = "fio prints flush latency since 3.4, and only if it flushed: this output has none"
NEEDS = (
    # json+ with nanosecond bins is what 3.0 brought
    Need("fio", {"debian": "fio", "rhel": "fio", "freebsd": "fio"}, minimum="3.0"),
)
RESULT = "fio.json"
LOGS = ("bw", "iops", "lat", "clat", "slat")
# jobs with logs of their own
MOST_LOGGED = 256
JSON = re.compile(rb"\s*\{")
_VERSION = re.compile(rb'"fio version"\s*:\s*"([^"]+)"')
# --parse-only takes any word for an engine: it is opened only by a run. --enghelp also fails without options to tell.
CHECK = b"""fio --parse-only job.fio || exit
for engine in "$@"; do
  case "$(fio --enghelp="$engine" 2>&1)" in
    *"not found"* | *"not loadable"*) echo "the fio of this host has no ioengine $engine" >&2; exit 1 ;;
  esac
done
"""
SCRIPTS = {CHECK: ("[A-Za-z0-9_-]+",)}
# What a job file or `extra` says is in neither, and no result of somebody else's has them.
IO_FIELDS = {
    "reads": ("rw",),
    "writes": ("rw",),
    "random": ("rw",),
    "block": ("block_size",),
    "direct": ("direct",),
    "synced": ("rw", "fsync", "fdatasync"),
    "size": ("size", "numjobs"),
    "ramp_s": ("ramp_s",),
    "runtime_s": ("runtime_s",),
    "outstanding": ("iodepth", "numjobs", "ioengine"),
}
# half are reads by default
MIXED = ("rw", "readwrite", "randrw")
# Options that make it other work: what is durable when, and what holds the job back. The last ones only others set.
OTHER_WORK = ("fsync", "fdatasync", "sync", "sync_file_range", "rate", "rate_iops", "thinktime")
# B/s, a slow disk's: how fast we expect a file to be laid out
LAYOUT_RATE = 100e6
# B/s: so slowly may a job go on that has a size to do, and no time
SLOWEST = 1e5
# beyond what is expected
LONGEST_S = 2 * 86400.0


def build_job(options: Options, target: Target) -> Job:
    own, laid_out = _target_settings(options, target)
    if not laid_out and not root_reason(options, target):
        # Nothing of it is in the cache, and the job is the same whoever runs it.
        own += [("invalidate", "0")]
    logging, logs = _logs(options)
    own += logging
    seconds = _expected_seconds(options, target, laid_out)
    return Job(
        argv=("fio", "--output-format=json+", f"--output={RESULT}", "--eta=never", "job.fio"),
        outputs=(RESULT, *logs),
        inputs={"job.fio": jobfile.write_job_file(sections(options), own)},
        env={"LC_ALL": "C"},
        expected_s=seconds,
        timeout_s=seconds * 3 + 1800 + _patience(options, target),
        writes=_written_bytes(options, target, laid_out),
        must_be_off=_fio_options.must_be_off(sections(options)),
    )


def same_work(options: Mapping[str, object]) -> SameWork | None:
    """None: what a job file or further options say is nobody's to compare."""
    if options.get("job_file") or options.get("extra"):
        return None
    reads = options.get("rwmixread", 50) if options.get("rw") in MIXED else None
    others = (str(options.get(name) or 0) for name in OTHER_WORK)
    return SameWork(("rw", "block_size"), (reads, *others))


def build_precheck(options: Options, target: Target) -> Job | None:
    """fio reads the job file and stops, and says whether it has the engines; the target is not opened."""
    real = build_job(options, target)
    return replace(
        real,
        argv=("sh", "check.sh", *jobfile.engines(sections(options))),
        inputs={**real.inputs, "check.sh": CHECK},
        outputs=(),
        expected_s=1.0,
        timeout_s=30.0,
        writes=0,
        drop_caches=False,
    )


def outstanding_ios(options: Options) -> int | None:
    return jobfile.outstanding_ios(sections(options))


def root_reason(options: Options, target: Target) -> str:
    return _fio_options.sections_root_reason(sections(options), target)


def required_bytes(options: Options, target: Target) -> int:
    return jobfile.required_bytes(sections(options), files=bool(target.mount))


def reads_existing(options: Options) -> bool:
    return jobfile.reads_existing(sections(options))


def access_pattern(options: Options) -> Access:
    return _fio_access.sections_access(sections(options))


def uses_monotonic_clock(options: Options) -> bool:
    """True unless an option makes fio ask for the time of day."""
    chosen = (job.get("clocksource") for job in jobfile.each_job(sections(options)))
    return all(source in (None, "cpu", "clock_gettime") for source in chosen)


def printed_version(outputs: Mapping[str, bytes]) -> str:
    """The version in the first lines of the result."""
    match = _VERSION.search(outputs.get(RESULT, b"")[:500])
    return match[1].decode("utf-8", "replace") if match else ""


def parse(outputs: Mapping[str, bytes], options: Options) -> list[Metric]:
    """`fio.json` if the run left one, else stdout: JSON or text, of any version (imports)."""
    name = _result(outputs)
    return lines_of(name, jobs_to_metrics(_output_jobs(outputs.get(name, b""), outputs), options))


def parse_histograms(outputs: Mapping[str, bytes], options: Options) -> list[Histogram]:
    """Histograms of JSON+, the only output of fio with bins."""
    jobs, notes = _output_jobs(outputs.get(_result(outputs), b""), outputs)
    return _fio_metrics.histograms(_fio_metrics.grouped(jobs, notes))


def _result(outputs: Mapping[str, bytes]) -> str:
    return RESULT if outputs.get(RESULT) else "stdout"


def _output_jobs(raw: bytes, outputs: Mapping[str, bytes]) -> tuple[Iterable[FioJob], str]:
    """And what fio said besides."""
    # 100 MB of it are not to be decoded, nor searched for what they are
    if JSON.match(raw):
        return fio_json.parse_jobs(raw)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ParseError("not text", line, repr(raw[error.start : error.start + 40])) from None
    if not text.strip():
        raise ParseError("empty: fio wrote no result" + _complaint(outputs))
    if fio_text.HEAD.search(text):
        return fio_text.parse_jobs(text)
    if fio_terse.HEAD.search(text):
        return fio_terse.parse_jobs(text)
    return fio_json.parse_jobs(raw)


def jobs_to_metrics(read: tuple[Iterable[FioJob], str], options: Options) -> list[Metric]:
    """Metrics of the jobs, with fio's warnings. Raises ParseError."""
    jobs, notes = read
    return _with_known_depth(_fio_metrics.job_metrics(jobs, options.iodepth, notes), options)


def with_histograms(
    read: tuple[Iterable[FioJob], str], options: Options
) -> tuple[list[Metric], list[Histogram]]:
    """Both for one reading, as `figures`."""
    jobs, notes = read
    groups = _fio_metrics.grouped(jobs, notes)
    metrics = _fio_metrics.group_metrics(groups, options.iodepth, notes)
    return _with_known_depth(metrics, options), _fio_metrics.histograms(groups)


def _with_known_depth(metrics: list[Metric], options: Options) -> list[Metric]:
    return [*metrics, *_untold_flushes(metrics, options)]


def _untold_flushes(metrics: list[Metric], options: Options) -> list[Metric]:
    """Note for whoever asked for flushes that this output has no latency of theirs, rather than nothing at all."""
    if not (options.fsync or options.fdatasync) or any(m.name == "sync.lat.mean" for m in metrics):
        return []
    return [Metric("sync.lat.mean", None, Unit.SECONDS, note=NO_FLUSHES)]


class _Logs(Mapping[str, str]):
    """Each is decoded when it is asked for."""

    def __init__(self, outputs: Mapping[str, bytes]) -> None:
        self._outputs = outputs

    def __getitem__(self, name: str) -> str:
        return self._outputs[name].decode("ascii", "replace")

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._outputs if name.startswith("fio_"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def parse_series(outputs: Mapping[str, bytes], options: Options) -> list[Series]:
    """Series of the logs that the options ask for. Runs of BenchLab use fio 3.0 or later.

    None of several jobs that begin one after another: each log counts from its own job's beginning.
    """
    settings = sections(options)
    if jobfile.job_count(settings) != 1 and not jobfile.together(settings):
        return []
    head = outputs.get(RESULT, b"")[:500].decode("utf-8", "replace")
    log_intervals = fio_series.LogIntervals(
        options.log_avg_msec / 1000, options.log_hist_msec / 1000
    )
    return fio_series.logs_to_series(
        _Logs(outputs), fio_log.fio_version(head) or (3, 0), log_intervals
    )


def parse_windows(outputs: Mapping[str, bytes], options: Options, timing: Timing) -> list[Window]:
    raw = outputs.get(RESULT, b"")
    settings = sections(options)
    ramp, together = jobfile.ramp(settings), jobfile.together(settings)
    return _fio_metrics.parse_json_windows(raw, timing, ramp, together) if JSON.match(raw) else []


def _logs(options: Options) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """fio's settings for logs, and the files that it writes then: one of each job where they can be counted."""
    kinds: tuple[str, ...] = ()
    own: list[tuple[str, str]] = []
    if options.log_avg_msec:
        kinds += LOGS
        own += [(f"write_{kind}_log", "fio") for kind in ("bw", "iops", "lat")]
        own += [("log_avg_msec", str(options.log_avg_msec))]
    if options.log_hist_msec:
        kinds += ("clat_hist",)
        own += [("write_hist_log", "fio"), ("log_hist_msec", str(options.log_hist_msec))]
    if not kinds:
        return [], ()
    jobs = jobfile.job_count(sections(options))
    if jobs is None or not 1 < jobs <= MOST_LOGGED:
        return [*own, ("per_job_logs", "0")], tuple(f"fio_{kind}.log" for kind in kinds)
    names = (f"fio_{kind}.{number}.log" for kind in kinds for number in range(1, jobs + 1))
    return [*own, ("per_job_logs", "1")], tuple(names)


def _complaint(outputs: Mapping[str, bytes]) -> str:
    lines = outputs.get("stderr", b"").decode("utf-8", "replace").strip().splitlines()
    return f"; output: {lines[-1][:300]}" if lines else ""


def _target_settings(options: Options, target: Target) -> tuple[list[tuple[str, str]], bool]:
    """fio's settings that point at the target, and whether fio makes a file there."""
    if target.mount:
        if not options.size and not options.job_file:
            raise OptionsError("size: 0 means a whole volume, but the target is a filesystem")
        return [("directory", jobfile.escape_path(target.mount, "mount")), ("unlink", "1")], True
    if target.volume:
        # a node that went away must not become a file that fills /dev
        name = jobfile.escape_path(target.volume, "volume")
        return [("filename", name), ("allow_file_create", "0")], False
    raise OptionsError(f"target {target.name!r} has neither a volume nor a mount point for fio")


def _volume(options: Options, target: Target) -> int:
    """Bytes that the jobs together work on; 0 unknown."""
    return (options.size or target.size) * options.numjobs


def _expected_seconds(options: Options, target: Target, laid_out: bool) -> float:
    """Seconds by the sections: an `extra` may set another time than the form."""
    settings = sections(options)
    work = jobfile.work(settings, target.size)
    measured = jobfile.expected_seconds(settings) + (3600.0 if work is None else work / LAYOUT_RATE)
    if options.job_file:
        return measured
    laying = _volume(options, target) / LAYOUT_RATE if laid_out else 0.0
    return measured + laying + 2.0


def _patience(options: Options, target: Target) -> float:
    """Longer for jobs that end with their size, at random perhaps: what is cut off is lost."""
    work = jobfile.work(sections(options), target.size)
    return LONGEST_S if work is None else min(LONGEST_S, work / SLOWEST)


def _written_bytes(options: Options, target: Target, laid_out: bool) -> int | None:
    """Upper limit; None where time decides how often the same blocks are written, or a job file or extra option may."""
    if options.job_file or options.extra:
        return None
    laying = _volume(options, target) if laid_out else 0
    if options.rw in ("read", "randread"):
        return laying
    if options.time_based and options.runtime_s:
        return None
    return laying + _volume(options, target) if _volume(options, target) else None
