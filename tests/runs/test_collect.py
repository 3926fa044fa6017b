"""Figures of what is kept: whose line each stands in, and what becomes of samples that cannot be read."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from django.db import IntegrityError, transaction

from agents.contracts import Job, ParseError, Reason
from agents.jobs import job
from agents.samplers import zpool
from agents.tools import dd
from benchlab.charts import queries
from benchlab.charts.device_tables import device_rows
from benchlab.charts.sampled_tracks import read_tracks, read_windows, select_part
from benchlab.runs import artifact_figures, artifacts, attempt_meta, conclusion, transitions
from benchlab.runs.models import Attempt
from benchlab.runs.states import AttemptPhase, Outcome
from benchlab.runs.verdict import Verdict, judge_attempt
from tests.charts import made

DD = (Path(__file__).parents[1] / "cases" / "tools" / "dd" / "9.1-direct.txt").read_bytes()
ZPOOL = zpool.WATCHES[0].file_key


@pytest.fixture
def attempt(team) -> Attempt:
    """Of dd, without any artifact."""
    host, topology = made.host(team), made.topology(team, "raw")
    load = made.workload(team, "dd", "dd")
    (found,) = made.swept(made.campaign(team), host, topology, load, depths=(1,), repeats=1)
    found.run.tool, found.run.options = "dd", {}
    found.run.save()
    found.artifacts.all().delete()
    return found


def concluded(attempt: Attempt, verdict: Verdict) -> Verdict:
    """Its figures are stored as at its end."""
    found, figures = conclusion.conclude_attempt(attempt, verdict)
    conclusion.replace_figures(attempt, figures)
    return found


@pytest.mark.parametrize("stdout", [b"", b"words of a wrapper\n", b"1\n2\n3\n4\n"])
def test_dd_prints_to_stderr_whatever_is_in_stdout(attempt, web, stdout):
    artifacts.store_artifacts(attempt, {"stdout": stdout, "stderr": DD, "dd.json": b"{}"})
    assert conclusion.reparse_attempt(attempt) == ""
    rows = list(attempt.measurements.exclude(line=0))
    assert rows and {row.output for row in rows} == {"stderr"}
    shown = web.get(f"/runs/{attempt.run_id}/").content.decode()
    said = attempt.artifacts.get(name="stderr")
    for row in rows:
        assert f"/artifacts/{said.pk}/lines/?line={row.line}#L{row.line}" in shown


def test_what_is_not_kept_is_not_linked(attempt, web):
    attempt.measurements.update(line=3, output="stderr")
    shown = web.get(f"/runs/{attempt.run_id}/").content.decode()
    assert "/lines/?line=3" not in shown


# What no sampler can read costs its own series, never the run: the tool's figures are as good as before.

TICKS = (1_000_000_000, 2_000_000_000, 3_000_000_000)
# 70 characters as rpool/mirror-0/…
LONG = "nvme-Samsung_SSD_970_EVO_Plus_1TB_S4EWNX0N123456A-part3"


def samples(disk: str) -> bytes:
    """Of /proc/diskstats, and of a pool with that disk in it."""
    blank, said = " " * 40, "  50.6G  409G  11  50  400  800\n"
    table = (
        f"{blank}capacity  operations  bandwidth\npool{blank}alloc  free  read  write  read  write\n"
        f"rpool{said}  mirror-0{said}    {disk}{said}"
    )
    return b"".join(frame(at, table) for at in TICKS)


def frame(at: int, table: str) -> bytes:
    counters = f"8 0 sda {at // 10**7} 0 {at // 10**6} 5 0 0 0 0 0 5 5 0 0 0 0 0 0\n"
    stamped = "".join(f"{at} {line}\n" for line in table.splitlines())
    files = {"/proc/diskstats": counters, ZPOOL: stamped}
    texts = (f"# {name}\n" + "".join(f" {line}\n" for line in text.splitlines())
             for name, text in files.items())  # fmt: skip
    return f"@ {at}\n{''.join(texts)}.\n".encode()


def sampled(attempt: Attempt) -> set[str]:
    return set(attempt.series.values_list("sampler", flat=True))


def test_a_disk_of_a_pool_may_have_a_long_name(attempt):
    artifacts.store_artifacts(attempt, {"stderr": DD, artifacts.SAMPLES: samples(LONG)})
    assert concluded(attempt, Verdict(Outcome.SUCCEEDED)) == Verdict(Outcome.SUCCEEDED)
    assert attempt.series.filter(device=f"rpool/mirror-0/{LONG}").exists()
    assert attempt_meta.NOT_SAMPLED not in attempt.meta


@pytest.mark.parametrize(
    ("raw", "blamed", "read"),
    [
        (samples("x" * 300), "zpool", {"diskstats"}),
        (samples("sdb").replace(b"8 0 sda", b"8 0 sda x"), "diskstats", {"zpool"}),
        (b"no frame\n.\n", "samples", set()),
    ],
)
def test_samples_that_cannot_be_read_do_not_fail_the_run(attempt, web, raw, blamed, read):
    artifacts.store_artifacts(attempt, {"stderr": DD, artifacts.SAMPLES: raw})
    assert concluded(attempt, Verdict(Outcome.SUCCEEDED)) == Verdict(Outcome.SUCCEEDED)
    assert attempt.measurements.filter(name="bandwidth").exists()
    assert sampled(attempt) == read
    attempt.refresh_from_db()
    assert list(attempt.meta[attempt_meta.NOT_SAMPLED]) == [blamed]
    shown = web.get(f"/runs/{attempt.run_id}/").content.decode()
    assert f"{blamed}: " in shown and "was sampled could be read" in shown
    told = web.get(f"/api/attempts/{attempt.pk}/").json()
    assert list(told["meta"][attempt_meta.NOT_SAMPLED]) == [blamed]


def test_reparse_keeps_the_series_that_it_cannot_read_any_more(attempt, monkeypatch):
    artifacts.store_artifacts(attempt, {"stderr": DD, artifacts.SAMPLES: samples("sdb")})
    assert conclusion.reparse_attempt(attempt) == ""
    before = attempt.series.count()
    assert sampled(attempt) == {"diskstats", "zpool"}

    def refuse(frames):
        raise ParseError("not as before")

    with monkeypatch.context() as later:
        later.setattr(zpool, "frames_to_series", refuse)
        assert conclusion.reparse_attempt(attempt) == ""
        assert attempt.series.count() == before
        assert attempt.meta[attempt_meta.NOT_SAMPLED] == {"zpool": "not as before"}
        later.setattr(job, "frames", refuse)
        assert conclusion.reparse_attempt(attempt) == ""
        assert attempt.series.count() == before
    assert conclusion.reparse_attempt(attempt) == ""
    attempt.refresh_from_db()
    assert attempt.series.count() == before and attempt_meta.NOT_SAMPLED not in attempt.meta


def test_a_run_that_an_older_version_failed_for_its_samples_stands_after_reparse(attempt):
    artifacts.store_artifacts(attempt, {"stderr": DD, artifacts.SAMPLES: samples(LONG)})
    attempt.outcome, attempt.reason = Outcome.FAILED, Reason.PARSE_FAILED
    attempt.save()
    assert conclusion.reparse_attempt(attempt) == ""
    attempt.refresh_from_db()
    assert attempt.outcome == Outcome.SUCCEEDED and attempt.measurements.exists()


# When the tool measured, and its own series, on the clock of what was sampled.

FIO = Path(__file__).parents[1] / "cases" / "tools" / "fio" / "3.41-randread.json"
BEGAN = 1795232020.0  # job_start of that file is 1.405 s later, and it read for 2.001 s
LOG = b"500, 100, 0, 4096\n1000, 300, 0, 4096\n"
FRAMES = b"".join(
    b"@ %d\n# /proc/diskstats\n    8 0 sdb %d 0 %d 0 0 0 0 0 0 0 0\n.\n" % (at, reads, 8 * reads)
    for at, reads in zip(range(997_000_000_000, 1_009_000_000_000, 1_000_000_000),
                         (0, 9, 18, 27, 36, 45, 145, 295, 300, 300, 300, 300), strict=True)
)  # fmt: skip
CLOCKS = {"started_mono": 1000.0, "ended_mono": 1006.0, "started_at": BEGAN, "clock_step": 0.001}


@pytest.fixture
def by_fio(attempt) -> Attempt:
    attempt.run.tool, attempt.run.options = "fio", {"log_avg_msec": 500}
    attempt.run.save()
    attempt.meta |= CLOCKS
    attempt.save()
    artifacts.store_artifacts(
        attempt, {"fio.json": FIO.read_bytes(), "fio_bw.log": LOG, "samples": FRAMES}
    )
    return attempt


def test_windows_and_series_are_on_one_clock(by_fio, web):
    """The first frame was 3 s before the job: by fio's clock the log would stand there, 4.4 s too early."""
    assert conclusion.reparse_attempt(by_fio) == ""
    by_fio.refresh_from_db()
    layout, measured = by_fio.windows
    assert (layout["name"], layout["measured"]) == ("file layout", False)
    assert (measured["start"], measured["end"]) == pytest.approx((4.405, 6.406), abs=1e-6)
    own = by_fio.series.get(sampler="fio", metric="read.bandwidth")
    assert own.times == pytest.approx([4.905, 5.405], abs=1e-6)
    page = web.get(f"/runs/{by_fio.run_id}/").content.decode()
    assert "Over measured, 4.4 to 6.4 s" in page and "fio itself" in page
    names = {one["name"] for one in web.get(f"/attempts/{by_fio.pk}/devices.json").json()["data"]}
    assert names == {"sdb (INTEL SSDSC2BB48)", "fio itself"}


def test_the_mean_of_a_device_is_that_of_its_counters_in_the_window(by_fio):
    """By hand: of the frames at 3, 4, 5, 6 s … only 5 to 6 lies in 4.405 to 6.406: 145 - 45 reads in that second."""
    conclusion.reparse_attempt(by_fio)
    by_fio.refresh_from_db()
    found = select_part(read_tracks(by_fio), read_windows(by_fio))
    [reads] = [
        row for row in device_rows(found.tracks, {}) if (row.device, row.title) == ("sdb", "Reads")
    ]
    assert reads.summary.n == 1 and reads.summary.mean == pytest.approx(100.0)


@pytest.mark.parametrize(
    "lost", [{"clock_step": 7.0}, {"started_mono": None}, {"ended_mono": None}]
)
def test_where_the_clocks_do_not_tell_nothing_is_guessed(by_fio, web, lost):
    by_fio.meta |= lost
    by_fio.save()
    assert conclusion.reparse_attempt(by_fio) == ""
    by_fio.refresh_from_db()
    assert by_fio.windows == []
    assert by_fio.series.get(sampler="fio", metric="read.bandwidth").times == [0.5, 1.0]
    page = web.get(f"/runs/{by_fio.run_id}/").content.decode()
    assert "Over the whole run, file layout and ramp included" in page
    assert "fio itself, by its own clock" in page


def test_marks_that_cannot_be_read_cost_no_figure(attempt, web):
    attempt.meta |= CLOCKS
    attempt.save()
    artifacts.store_artifacts(attempt, {"stdout": b"", "stderr": DD, "marks": b"torn\n"})
    assert conclusion.reparse_attempt(attempt) == "" and attempt.measurements.exists()
    attempt.refresh_from_db()
    assert (
        attempt.windows == []
        and "not a mark" in attempt.meta[attempt_meta.NOT_SAMPLED][artifact_figures.TIMING]
    )


# A tool that gave up: what it had printed stands, and the run is a failed one all the same.

FAILED = Verdict(
    Outcome.FAILED, Reason.TOOL_FAILED, "dd ended with exit code 1: No space left on device"
)


def given_up(attempt: Attempt, tool: str, options: dict[str, object], **files: bytes) -> Verdict:
    attempt.run.tool, attempt.run.options = tool, options
    attempt.run.save()
    attempt.measurements.all().delete()
    attempt.exit_code = 1
    attempt.save()
    artifacts.store_artifacts(attempt, {"stdout": b"", "stderr": b"", **files})
    return concluded(attempt, FAILED)


def names(attempt: Attempt) -> set[str]:
    return set(attempt.measurements.values_list("name", flat=True))


def test_figures_of_a_tool_that_gave_up_are_kept_and_its_run_has_failed(attempt, user, web):
    verdict = given_up(attempt, "dd", {}, stderr=DD)
    assert (verdict.outcome, verdict.reason) == (Outcome.FAILED, Reason.TOOL_FAILED)
    first, kept = verdict.text.split("\n")
    told = attempt.measurements.exclude(value=None).count()
    assert first == FAILED.text and kept.startswith(f"{told} figures that it had printed are kept")
    assert "bandwidth" in names(attempt) and attempt.artifacts.filter(name="stderr").exists()
    attempt.outcome = verdict.outcome
    attempt.save()
    assert queries.read_groups(user, [attempt.run.campaign_id]) == []  # no chart has them
    assert "This run failed" in web.get(f"/runs/{attempt.run_id}/").content.decode()


def test_of_fio_that_met_io_errors(attempt):
    raw = (Path(__file__).parents[1] / "cases" / "tools" / "fio" / "3.25-randrw.json").read_bytes()
    given_up(attempt, "fio", {}, **{"fio.json": raw})
    assert {"read.iops", "write.iops"} <= names(attempt)


def test_of_a_script_the_lines_that_find_something(attempt):
    extract = ("a [s] = regex: took ([0-9]+) s", "b [s] = regex: then ([0-9]+) s")
    verdict = given_up(attempt, "command", {"extract": extract}, stdout=b"took 3 s\nfull\n")
    assert names(attempt) == {"a"} and "1 figure that it had printed is kept" in verdict.text


def test_of_pg_test_fsync_the_tests_before_it_ended(attempt):
    cases = Path(__file__).parents[1] / "cases" / "tools" / "pg_test_fsync"
    given_up(
        attempt, "pg_test_fsync", {}, stdout=(cases / "15.18-truncated-killed.txt").read_bytes()
    )
    assert "one.fdatasync.ops" in names(attempt)
    assert "unsynced.write.ops" not in names(attempt)


@pytest.mark.parametrize("stderr", [b"", b"dd: no such file\n"])
def test_where_nothing_was_printed_nothing_is_added(attempt, stderr):
    assert given_up(attempt, "dd", {}, stderr=stderr) == FAILED
    assert not names(attempt)


def test_a_parser_that_breaks_on_half_an_output_hides_not_how_the_tool_ended(attempt, monkeypatch):
    monkeypatch.setattr(dd, "parse", lambda files, built: 1 / 0)
    assert given_up(attempt, "dd", {}, stderr=DD) == FAILED


def test_they_are_read_again_as_they_were(attempt, monkeypatch):
    given_up(attempt, "dd", {}, stderr=DD)
    attempt.outcome, attempt.reason = FAILED.outcome, FAILED.reason
    attempt.save()
    before = names(attempt)
    assert conclusion.reparse_attempt(attempt) == "" and names(attempt) == before
    monkeypatch.setattr(dd, "parse", lambda files, built: 1 / 0)
    assert (
        "can be read any more" in conclusion.reparse_attempt(attempt) and names(attempt) == before
    )
    assert attempt.outcome == "failed"


def test_one_that_was_stopped_has_no_figures(attempt):
    artifacts.store_artifacts(attempt, {"stderr": DD})
    attempt.measurements.all().delete()
    late = Verdict(Outcome.FAILED, Reason.JOB_TIMEOUT, "late")
    assert concluded(attempt, late) == late and not names(attempt)


# Figures and the move that they belong to are stored together, or not at all.


def overtaken(attempt: Attempt, phase: AttemptPhase) -> Attempt:
    """As a worker has it that was thought dead, while another has ended it."""
    row = Attempt.objects.filter(pk=attempt.pk)
    row.update(phase=phase, outcome="")
    late = row.get()
    row.update(phase=AttemptPhase.DONE, outcome=Outcome.SUCCEEDED)
    return late


def test_what_somebody_else_has_ended_keeps_its_figures(attempt):
    artifacts.store_artifacts(attempt, {"stderr": DD, artifacts.SAMPLES: samples("sdb")})
    concluded(attempt, Verdict(Outcome.SUCCEEDED))
    before = list(attempt.measurements.values_list("pk", flat=True))
    late = overtaken(attempt, AttemptPhase.COLLECTING)
    with pytest.raises(transitions.Moved), transaction.atomic():
        conclusion.end_attempt(late, *conclusion.conclude_attempt(late, Verdict(Outcome.SUCCEEDED)))
    assert before and list(attempt.measurements.values_list("pk", flat=True)) == before


def test_output_of_what_somebody_else_has_ended_is_not_kept_again(attempt):
    late = overtaken(attempt, AttemptPhase.RUNNING)
    came = job.Fetched({"stderr": DD}, b"", b"", job._meta({"state": "exited", "exit": "0"}, 0))
    with pytest.raises(transitions.Moved), transaction.atomic():
        artifacts.store_fetched(late, came, over="it is over, says who comes late")
    assert not attempt.artifacts.exists()


def test_figures_that_cannot_be_stored_leave_the_attempt_where_it_was(attempt):
    artifacts.store_artifacts(attempt, {"stderr": DD, artifacts.SAMPLES: samples("sdb")})
    Attempt.objects.filter(pk=attempt.pk).update(phase=AttemptPhase.COLLECTING, outcome="")
    attempt.refresh_from_db()
    attempt.measurements.all().delete()
    verdict, figures = conclusion.conclude_attempt(attempt, Verdict(Outcome.SUCCEEDED))
    twice = dataclasses.replace(figures, metrics=figures.metrics * 2)
    with pytest.raises(IntegrityError), transaction.atomic():
        conclusion.end_attempt(attempt, verdict, twice)
    assert attempt.phase == AttemptPhase.COLLECTING and not attempt.measurements.exists()
    conclusion.end_attempt(attempt, verdict, figures)
    attempt.refresh_from_db()
    assert attempt.outcome == Outcome.SUCCEEDED and attempt.measurements.exists()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "fio ended with exit code 1: "),
        (
            137,
            "fio was killed by SIGKILL, perhaps by the kernel for lack of memory (exit code 137): ",
        ),
        (139, "fio was killed by SIGSEGV (exit code 139): "),
        (255, "fio ended with exit code 255: "),
    ],
)
def test_a_tool_that_a_signal_killed_is_said_to_be(make_layout, code, words):
    attempt = make_layout(phase="ready").attempts.get()
    attempt.meta, attempt.exit_code = {"state": "exited"}, code
    assert judge_attempt(attempt, Job(("fio",))).text == f"{words}no output"


@pytest.mark.parametrize("code", [0, 1])
def test_a_full_disk_of_the_host_is_named(make_layout, code):
    attempt = make_layout(phase="ready").attempts.get()
    attempt.meta, attempt.exit_code = {"state": "exited", "disk_full": True}, code
    found = judge_attempt(attempt, Job(("fio",)))
    assert (found.outcome, found.reason) == (Outcome.FAILED, Reason.NO_SPACE)
    assert found.text.startswith("/var/tmp on the host was full when fio ended")
