"""Figures of what is kept: whose line each stands in, and what becomes of samples that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents import job
from agents.contracts import ParseError, Reason
from agents.samplers import zpool
from benchlab.runs import collect
from benchlab.runs.models import Attempt
from benchlab.runs.states import Outcome
from benchlab.runs.verdict import Verdict
from tests.charts import made

DD = (Path(__file__).parents[1] / "cases" / "tools" / "dd" / "9.1-direct.txt").read_bytes()
ZPOOL = zpool.WATCHES[0].key


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


@pytest.mark.parametrize("stdout", [b"", b"words of a wrapper\n", b"1\n2\n3\n4\n"])
def test_dd_prints_to_stderr_whatever_is_in_stdout(attempt, web, stdout):
    collect.keep(attempt, {"stdout": stdout, "stderr": DD, "dd.json": b"{}"})
    assert collect.reparse(attempt) == ""
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
LONG = (
    "nvme-Samsung_SSD_970_EVO_Plus_1TB_S4EWNX0N123456A-part3"  # 70 characters as rpool/mirror-0/…
)


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
    collect.keep(attempt, {"stderr": DD, collect.SAMPLES: samples(LONG)})
    assert collect.conclude(attempt, Verdict(Outcome.SUCCEEDED)) == Verdict(Outcome.SUCCEEDED)
    assert attempt.series.filter(device=f"rpool/mirror-0/{LONG}").exists()
    assert collect.NOT_SAMPLED not in attempt.meta


@pytest.mark.parametrize(
    ("raw", "blamed", "read"),
    [
        (samples("x" * 300), "zpool", {"diskstats"}),
        (samples("sdb").replace(b"8 0 sda", b"8 0 sda x"), "diskstats", {"zpool"}),
        (b"no frame\n.\n", "samples", set()),
    ],
)
def test_samples_that_cannot_be_read_do_not_fail_the_run(attempt, web, raw, blamed, read):
    collect.keep(attempt, {"stderr": DD, collect.SAMPLES: raw})
    assert collect.conclude(attempt, Verdict(Outcome.SUCCEEDED)) == Verdict(Outcome.SUCCEEDED)
    assert attempt.measurements.filter(name="bandwidth").exists()
    assert sampled(attempt) == read
    attempt.refresh_from_db()
    assert list(attempt.meta[collect.NOT_SAMPLED]) == [blamed]
    shown = web.get(f"/runs/{attempt.run_id}/").content.decode()
    assert f"{blamed}: " in shown and "was sampled could be read" in shown
    told = web.get(f"/api/attempts/{attempt.pk}/").json()
    assert list(told["meta"][collect.NOT_SAMPLED]) == [blamed]


def test_reparse_keeps_the_series_that_it_cannot_read_any_more(attempt, monkeypatch):
    collect.keep(attempt, {"stderr": DD, collect.SAMPLES: samples("sdb")})
    assert collect.reparse(attempt) == ""
    before = attempt.series.count()
    assert sampled(attempt) == {"diskstats", "zpool"}

    def refuse(frames):
        raise ParseError("not as before")

    with monkeypatch.context() as later:
        later.setattr(zpool, "series", refuse)
        assert collect.reparse(attempt) == ""
        assert attempt.series.count() == before
        assert attempt.meta[collect.NOT_SAMPLED] == {"zpool": "not as before"}
        later.setattr(job, "frames", refuse)
        assert collect.reparse(attempt) == ""
        assert attempt.series.count() == before
    assert collect.reparse(attempt) == ""
    attempt.refresh_from_db()
    assert attempt.series.count() == before and collect.NOT_SAMPLED not in attempt.meta


def test_a_run_that_an_older_version_failed_for_its_samples_stands_after_reparse(attempt):
    collect.keep(attempt, {"stderr": DD, collect.SAMPLES: samples(LONG)})
    attempt.outcome, attempt.reason = Outcome.FAILED, Reason.PARSE_FAILED
    attempt.save()
    assert collect.reparse(attempt) == ""
    attempt.refresh_from_db()
    assert attempt.outcome == Outcome.SUCCEEDED and attempt.measurements.exists()
